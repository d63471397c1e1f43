// SPDX-License-Identifier: Apache-2.0

// A shared receive queue played by hand: queue pairs that draw, a consumer that posts.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "daemon/qos/receive/provisioner.hpp"

namespace softhca::receive {

inline SrqPolicy limited(std::uint32_t limit, OnExceed on_exceed = OnExceed::kDropMessage) {
  SrqPolicy policy;
  policy.limits.fill(limit);
  policy.on_exceed = on_exceed;
  return policy;
}

struct Desk {
  explicit Desk(const SrqPolicy& policy, std::uint32_t buffers = 16, std::size_t queue_pairs = 8)
      : provisioner(buffers, policy, counters), members(queue_pairs) {}

  static Qpn qpn(std::size_t qp) { return Qpn(static_cast<std::uint32_t>(100 + qp)); }

  /// A message of one packet; its buffer lies at `address`.
  Decision message(std::size_t qp, std::uint64_t address = 0) {
    const Decision decision = provisioner.decide(members[qp], qpn(qp), now);
    if (!is_granted(decision)) return decision;
    provisioner.drawn(members[qp], now);
    provisioner.completed(members[qp], address);
    return decision;
  }
  unsigned messages(std::size_t qp, unsigned n) {
    unsigned granted = 0;
    for (unsigned i = 0; i < n; ++i) granted += is_granted(message(qp)) ? 1 : 0;
    return granted;
  }
  std::uint32_t held(std::size_t qp) const { return provisioner.held_by(members[qp]); }
  std::uint32_t limit(std::size_t qp) const { return provisioner.limit_of(members[qp]); }

  ProvisioningCounters counters;
  Provisioner provisioner;
  std::vector<Member> members;
  Time now{std::chrono::seconds(1)};
};

}  // namespace softhca::receive
