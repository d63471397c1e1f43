// SPDX-License-Identifier: Apache-2.0

// An event channel of rdma_cm that a process has opened. It takes the place of the device file of
// the kernel's connection manager. Its commands run on the control thread.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "daemon/frontend/unix/sockets/tenant_channel.hpp"
#include "daemon/services/connections.hpp"

namespace softhca::control {

class EventChannel final : public TenantChannel {
 public:
  /// Answers the request. Returns null if the answer was an error, or the process has gone.
  static std::unique_ptr<EventChannel> open(Connections& connections, engine::Tenant& tenant,
                                            ChannelRequest request);
  ~EventChannel() override;
  Kind kind() const override { return Kind::kEvents; }

 private:
  EventChannel(Connections& connections, engine::Tenant& tenant, ChannelRequest& request)
      : TenantChannel(tenant, request), connections_(connections) {}
  int start(const management::rdma_cm::ChannelOwner& owner, Reply& reply);
  std::optional<int> run(abi::Operation operation, std::span<const std::byte> body,
                         Reply& reply) override;
  int command(std::span<const std::byte> body, Reply& reply);
  bool take_back(const Turn& turn) override;

  Connections& connections_;
  std::optional<management::rdma_cm::ChannelId> channel_;
};

}  // namespace softhca::control
