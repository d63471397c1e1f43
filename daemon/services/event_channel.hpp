// SPDX-License-Identifier: Apache-2.0

// An event channel of rdma_cm that a process has opened. It takes the place of the device file of
// the kernel's connection manager. Its commands run on the control thread.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "daemon/device/adapter/refused_requests.hpp"
#include "daemon/services/connections.hpp"
#include "daemon/services/tenant_channel.hpp"

namespace softhca::control {

class EventChannel final : public TenantChannel {
 public:
  /// Opens the channel that a process has requested. Returns 0 with a complete `reply`, or an errno
  /// value.
  static int open(Connections& connections, engine::Tenant& tenant, const ChannelRequest& request,
                  const Peer& peer, Reply& reply, std::unique_ptr<TenantChannel>& out);
  /// Takes up the channel that an earlier adapter has recorded. REQUIRES: the tenant's rdma_cm is
  /// restored. Returns null if the record does not fit.
  static std::unique_ptr<TenantChannel> restore(Connections& connections, engine::Tenant& tenant,
                                                records::BodyReader& body, const Peer& peer);
  ~EventChannel() override;
  Kind kind() const override { return Kind::kEvents; }

 private:
  EventChannel(Connections& connections, engine::Tenant& tenant)
      : TenantChannel(tenant), connections_(connections) {}
  int start(const management::rdma_cm::ChannelOwner& owner, std::uint32_t version, const Peer& peer,
            Reply& reply);
  std::optional<int> run(const abi::RequestHeader& header, std::span<const std::byte> body,
                         Reply& reply) override;
  int command(std::uint32_t tag, std::span<const std::byte> body, Reply& reply);
  bool take_back(const Turn& turn) override;
  void record(records::BodyWriter& body) const override;

  Connections& connections_;
  std::optional<management::rdma_cm::ChannelId> channel_;
  pid_t process_ = 0;
  RefusedRequests refused_{"event channel"};
};

}  // namespace softhca::control
