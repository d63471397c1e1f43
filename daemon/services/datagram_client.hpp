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

#include "daemon/frontend/unix/sockets/tenant_channel.hpp"
#include "daemon/services/datagram_clients.hpp"

namespace softhca::control {

class DatagramClient final : public TenantChannel {
 public:
  /// Answers the request. Returns null if the answer was an error, or the process has gone.
  static std::unique_ptr<DatagramClient> open(DatagramClients& clients, engine::Tenant& tenant,
                                              ChannelRequest request);
  ~DatagramClient() override;
  Kind kind() const override { return Kind::kDatagrams; }

 private:
  DatagramClient(engine::Tenant& tenant, ChannelRequest& request)
      : TenantChannel(tenant, request) {}
  int start(DatagramClients& clients, const ChannelRequest& request, Reply& reply);
  void keep(std::uint32_t buffer);
  void quota_changed(std::uint32_t quota);
  void drop_surplus();
  void announce();
  std::optional<int> run(abi::Operation operation, std::span<const std::byte> body,
                         Reply& reply) override;
  int set_buffers(const RequestBody& body, Reply& reply);
  int send(std::span<const std::byte> body);
  int path_of(const abi::DatagramHead& head, engine::AddressPath& path) const;
  int receive(const RequestBody& body, Reply& reply);
  std::uint32_t take_drained();
  void reply_datagram(std::uint32_t buffer, Reply& reply);

  std::unique_ptr<DatagramClients::Registration> registration_;
  std::deque<std::uint32_t> queue_;  ///< buffers, oldest first
  std::uint32_t quota_ = 0;
  bool tell_quota_ = false;  ///< the quota has changed since the process was notified of it
  bool announced_ = false;   ///< a byte was sent since the process had taken everything
};

}  // namespace softhca::control
