// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/packets/peer_authentication.hpp"

namespace softhca::engine {
namespace {

constexpr Duration kCountedTogether = std::chrono::seconds(1);
constexpr Duration kBetweenAlarms = std::chrono::seconds(10);
/// The event belongs to the daemon, not to a tenant.
constexpr TenantId kOfDaemon(0xffff);

}  // namespace

/// Counts a refused packet and logs an event if there are many. The event names the source address
/// because an operator looks at it first. The address may be forged.
wire::DropReason PeerAuthentication::refuse(const wire::ParsedFrame& frame, wire::DropReason why) {
  if (clock_.now - second_began_ >= kCountedTogether) {
    second_began_ = clock_.now;
    refused_ = 0;
  }
  if (++refused_ < kAlarming || clock_.now < quiet_until_) return why;
  quiet_until_ = clock_.now + kBetweenAlarms;
  log_.add({.kind = DaemonEventKind::kForgedPackets,
            .tenant = kOfDaemon,
            .amount = refused_,
            .peer = frame.source,
            .cause = why == wire::DropReason::kUnauthenticated
                         ? "without a tag, from a host that must send one"
                         : "with a tag that matches no key"});
  return why;
}

}  // namespace softhca::engine
