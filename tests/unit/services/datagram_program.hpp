// SPDX-License-Identifier: Apache-2.0

// A program that is a client of a queue pair that several share.
#pragma once

#include <poll.h>

#include <algorithm>

#include "daemon/frontend/unix/server/socket_channel.hpp"
#include "daemon/services/datagram_client.hpp"
#include "tests/unit/device/session/client.hpp"

namespace softhca::control {

/// A program, its connection and what serves it, in one thread.
class Program : public ProcessEnd {
 public:
  Program(Daemon& daemon, DatagramClients& clients, std::size_t tenant,
          const abi::OpenDatagramClientRequest& request) {
    PeerSocket served(take_served_end(), daemon.adapter.blocking_calls,
                      daemon.adapter.tenants[tenant]->name);
    const PeerIdentity peer = *peer_identity(served.get());
    engine::Tenant& of = *daemon.adapter.tenants[tenant];
    ChannelRequest asked{.operation = Operation::kOpenDatagramClient,
                         .datagrams = request,
                         .level = {},
                         .descriptors = of.control.accounts.take(configuration::Kind::kDescriptors,
                                                                 ChannelRequest::kDescriptors)};
    client_ = SocketChannel::open(
        std::make_unique<SocketPeer>(daemon.adapter, of, std::move(served), peer), std::move(asked),
        [&](const auto& opening, const Peer& process, Reply& reply, auto& out) {
          return DatagramClient::open(clients, of, opening, process, reply, out);
        });
    std::vector<std::byte> body;
    opened = receive(body);
    if (opened != 0) return;
    quota = read<abi::DatagramQuotaBody>(body).quota;
    signal_ = std::move(take_descriptors().front());
  }

  /// False: the connection is over.
  bool send(Operation operation, std::span<const std::byte> body) {
    put(operation, body);
    return client_->serve();
  }
  template <class In>
  int ask(Operation operation, const In& request, std::vector<std::byte>& reply) {
    EXPECT_TRUE(send(operation, std::as_bytes(std::span(&request, 1))));
    return receive(reply);
  }
  template <class T>
  static T read(const std::vector<std::byte>& bytes, std::size_t at = 0) {
    T out{};
    EXPECT_GE(bytes.size(), at + sizeof out);
    if (bytes.size() >= at + sizeof out) std::memcpy(&out, bytes.data() + at, sizeof out);
    return out;
  }

  int set_buffers(std::uint32_t buffers) {
    std::vector<std::byte> reply;
    const int error = ask(Operation::kSetDatagramBuffers, abi::HandleBody{buffers, 0}, reply);
    if (error == 0) quota = read<abi::DatagramQuotaBody>(reply).quota;
    return error;
  }

  struct Message {
    abi::DatagramHead head{};
    std::array<std::byte, abi::kDatagramBytes> payload{};
  };
  int send(const Message& message) {
    std::vector<std::byte> reply;
    return ask(Operation::kSendDatagram, message, reply);
  }
  /// The next of what waits; the byte of the signal is taken as programs do.
  abi::DatagramEvent take(Message* message = nullptr) {
    std::vector<std::byte> reply;
    EXPECT_TRUE(send(Operation::kReceiveDatagram, {}));
    EXPECT_EQ(receive(reply), 0);
    const auto head = read<abi::ReceiveDatagramReply>(reply);
    if (head.drained != 0) {
      char byte;
      EXPECT_EQ(::recv(signal_.get(), &byte, 1, MSG_DONTWAIT), 1);
    }
    const auto event = static_cast<abi::DatagramEvent>(head.event);
    if (event == abi::DatagramEvent::kReceived && message != nullptr) {
      message->head = read<abi::DatagramHead>(reply, sizeof head);
      std::memcpy(message->payload.data(), reply.data() + sizeof head + sizeof message->head,
                  message->head.bytes);
    }
    if (event == abi::DatagramEvent::kQuota)
      quota = read<abi::DatagramQuotaBody>(reply, sizeof head).quota;
    return event;
  }
  bool readable() const {
    pollfd fd{signal_.get(), POLLIN, 0};
    return ::poll(&fd, 1, 0) == 1;
  }
  void end() { client_.reset(); }

  int opened = -1;
  std::uint32_t quota = 0;

 private:
  UniqueFd signal_;
  std::unique_ptr<SocketChannel> client_;
};

}  // namespace softhca::control
