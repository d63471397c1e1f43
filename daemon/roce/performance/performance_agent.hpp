// SPDX-License-Identifier: Apache-2.0

// The performance agent of a port (management class 4; InfiniBand specification, volume 1, 16.1):
// answers ClassPortInfo, PortCounters and PortCountersExtended.
//
// Counters can be read but not set. A datagram to queue pair 1 does not prove its sender, and the
// class has no key: any host that reaches the port could clear the figures used for billing and
// monitoring its tenant. So the agent answers Set with "method and attribute combination not
// supported", which a program does not mistake for a reset.
//
// Pure: counters come in as values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "daemon/roce/performance/pma_counters.hpp"
#include "daemon/roce/wire/mad.hpp"

namespace softhca::management {

/// Returns the response to a MAD of class 4. Returns nothing for another class or base version, and
/// for a MAD that gets no response (a response, a notice). `ports`: the number of
/// ports of the device, which share their counters. In the response, counters of 32 bits and less
/// stop at their maximum.
std::optional<wire::Mad> answer(std::span<const std::byte, wire::kMadBytes> request,
                                std::uint8_t ports, const PmaCounters& counters);

}  // namespace softhca::management
