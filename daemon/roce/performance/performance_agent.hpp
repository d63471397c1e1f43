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

#include "daemon/roce/wire/mad.hpp"

namespace softhca::management {

/// Counters of a port at full width. In the response, counters of 32 bits and less stop at their
/// maximum.
struct PortCounters {
  std::uint64_t transmitted_bytes = 0;  ///< of packets from LRH to VCRC (RoCE: from IP to ICRC)
  std::uint64_t received_bytes = 0;
  std::uint64_t transmitted_packets = 0;
  std::uint64_t received_packets = 0;
  std::uint64_t transmitted_unicast = 0;
  std::uint64_t received_unicast = 0;
  std::uint64_t transmitted_multicast = 0;
  std::uint64_t received_multicast = 0;
  std::uint64_t link_downed = 0;
  std::uint64_t receive_errors = 0;              ///< malformed packets
  std::uint64_t transmit_discards = 0;           ///< packets that could not be sent
  std::uint64_t receive_constraint_errors = 0;   ///< refused by policy
  std::uint64_t transmit_constraint_errors = 0;  ///< refused by policy
  std::uint64_t buffer_overruns = 0;             ///< lost for lack of buffers
  std::uint64_t queue_pair_1_dropped = 0;  ///< datagrams that the general services agent discarded
  std::uint64_t transmit_waits = 0;        ///< times a packet had to wait before it was sent
};

/// Returns the response to a MAD of class 4. Returns nothing for another class or base version, and
/// for a MAD that gets no response (a response, a notice). `port`: the number of the receiving
/// port, as programs see it.
std::optional<wire::Mad> answer(std::span<const std::byte, wire::kMadBytes> request,
                                std::uint8_t port, const PortCounters& counters);

}  // namespace softhca::management
