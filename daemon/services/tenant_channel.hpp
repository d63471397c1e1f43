// SPDX-License-Identifier: Apache-2.0

// A connection of a process that is not a session but serves one purpose of the process. A signal
// notifies the process that something waits for it. Runs on the control thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "abi/control.hpp"
#include "daemon/control_thread/turn.hpp"
#include "daemon/device/peer/channel_request.hpp"
#include "daemon/device/peer/peer.hpp"
#include "daemon/device/peer/request_body.hpp"
#include "daemon/engine/records/tenant.hpp"
#include "daemon/live_records/record_body.hpp"

namespace softhca::control {

class TenantChannel {
 public:
  /// The purpose of the channel.
  enum class Kind : std::uint8_t { kEvents, kDatagrams };

  virtual ~TenantChannel() = default;
  TenantChannel(const TenantChannel&) = delete;
  TenantChannel& operator=(const TenantChannel&) = delete;

  const engine::Tenant& tenant() const { return tenant_; }
  virtual Kind kind() const = 0;

  /// Runs a request. Returns 0 or an errno value. Nothing: the channel does not have the operation,
  /// and ends.
  virtual std::optional<int> run(const abi::RequestHeader& header, std::span<const std::byte> body,
                                 Reply& reply) = 0;

  /// True if the process was told that the channel is open: it has its end of the signal.
  bool is_known() const { return !signal_->is_hung_up(); }

  /// Writes what restores the channel in the adapter that follows: first the number of its signal.
  virtual void record(records::BodyWriter& body) const { body.add(signal_->kept()); }

  /// Takes back some of what its process has by the channel. Returns true if nothing is left.
  /// Otherwise call it again in the tenant's next turn. REQUIRES: the connection has ended.
  virtual bool take_back(const Turn&) { return true; }

 protected:
  explicit TenantChannel(engine::Tenant& tenant) : tenant_(tenant) {}

  /// Takes up what record() of the earlier adapter wrote. Returns false if it does not fit.
  bool restore_signal(records::BodyReader& body, const Peer& peer) {
    KeptId kept = 0;
    if (body.read(kept)) signal_ = peer.restore_signal(kept);
    return signal_ != nullptr;
  }

  engine::Tenant& tenant_;
  std::unique_ptr<Signal> signal_;  ///< made when the channel is opened
};

}  // namespace softhca::control
