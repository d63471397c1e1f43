// SPDX-License-Identifier: Apache-2.0

// A program that is a client of a queue pair shared by several clients. Received datagrams stay in
// buffers of its share until the program takes them. A program that does not read runs out of its
// own buffers, and takes none from others.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "daemon/services/datagram_clients.hpp"
#include "daemon/services/tenant_channel.hpp"

namespace softhca::control {

class DatagramClient final : public TenantChannel {
 public:
  /// Opens the channel that a process has requested. Returns 0 with a complete `reply`, or an errno
  /// value.
  static int open(DatagramClients& clients, engine::Tenant& tenant, const ChannelRequest& request,
                  const Peer& peer, Reply& reply, std::unique_ptr<TenantChannel>& out);
  /// Takes up the client that an earlier adapter has recorded. Its received datagrams are lost, as
  /// on a wire. Returns null if the record does not fit.
  static std::unique_ptr<TenantChannel> restore(DatagramClients& clients, engine::Tenant& tenant,
                                                records::BodyReader& body, const Peer& peer);
  ~DatagramClient() override;
  Kind kind() const override { return Kind::kDatagrams; }

 private:
  explicit DatagramClient(engine::Tenant& tenant) : TenantChannel(tenant) {}
  int start(DatagramClients& clients, const ChannelRequest& request, const Peer& peer,
            Reply& reply);
  int enter(DatagramClients& clients, const Peer& peer, bool again);
  void record(records::BodyWriter& body) const override;
  void keep(std::uint32_t buffer);
  void quota_changed(std::uint32_t quota);
  void drop_surplus();
  void announce();
  std::optional<int> run(const abi::RequestHeader& header, std::span<const std::byte> body,
                         Reply& reply) override;
  int set_buffers(const RequestBody& body, Reply& reply);
  int send(std::span<const std::byte> body);
  int path_of(const abi::DatagramHead& head, engine::AddressPath& path) const;
  int receive(const RequestBody& body, Reply& reply);
  std::uint32_t take_drained();
  void reply_datagram(std::uint32_t buffer, Reply& reply);

  abi::OpenDatagramClientRequest request_{};
  std::unique_ptr<DatagramClients::Registration> registration_;
  std::deque<std::uint32_t> queue_;  ///< buffers, oldest first
  std::uint32_t quota_ = 0;
  bool tell_quota_ = false;  ///< the quota has changed since the process was notified of it
  bool announced_ = false;   ///< a byte was sent since the process had taken everything
};

}  // namespace softhca::control
