// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/server/socket_channel.hpp"

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "daemon/frontend/unix/sockets/message.hpp"

namespace softhca::control {

std::unique_ptr<SocketChannel> SocketChannel::open(std::unique_ptr<SocketPeer> peer,
                                                   ChannelRequest request, const Open& open) {
  std::unique_ptr<TenantChannel> channel;
  Reply reply;
  int error = request.refusal;
  if (error == 0 && !request.descriptors) error = EMFILE;
  if (error == 0) error = open(request, *peer, reply, channel);
  const bool answered = peer->answer(request.tag, error, reply);
  // If the socket ends with the request in it, the process gets ECONNRESET instead of the answer.
  take_record(peer->socket());
  if (!answered || error != 0) return nullptr;
  return std::unique_ptr<SocketChannel>(
      new SocketChannel(std::move(peer), std::move(request.descriptors), std::move(channel)));
}

std::vector<std::byte> SocketChannel::state_of(const Peer& peer, const TenantChannel& channel) {
  records::BodyWriter body;
  body.add(peer.kept()).add_text(channel.tenant().name);
  channel.record(body);
  return {body.bytes().begin(), body.bytes().end()};
}

bool SocketChannel::serve() {
  return serve_records(socket(), [this](std::span<const std::byte> record) {
    return answer(record) ? Served::kNext : Served::kEnd;
  });
}

/// Answers a request. Returns false if the peer breaks the protocol or does not take the answer.
bool SocketChannel::answer(std::span<const std::byte> record) {
  abi::RequestHeader header;
  if (record.size() < sizeof header) return false;
  std::memcpy(&header, record.data(), sizeof header);
  Reply reply;
  const auto error = channel_->run(header, record.subspan(sizeof header), reply);
  return error && peer_->answer(header.tag, *error, reply);
}

}  // namespace softhca::control
