// The performance agent of a port (management class 4; InfiniBand specification, volume 1, 16.1):
// answers ClassPortInfo, PortCounters and PortCountersExtended.
//
// Counters can be read and not set. A datagram to queue pair 1 proves nothing about who sent it,
// and the class has no key: anyone who reaches the port could wipe out the figures that its tenant
// is billed and watched by. So Set is answered with "method and attribute combination not
// supported", and a program does not take the answer for a reset.
//
// Pure: counters come in as values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "daemon/wire/mad.hpp"

namespace softhca::management {

/// Counters of a port as the agent gives them, at full width; those of 32 bits and less stop at
/// their largest value.
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
  std::uint64_t transmit_waits = 0;        ///< times there was something to send and it had to wait
};

/// The answer to a MAD of class 4, or none: it is of another class or base version, or nothing that
/// is answered (a response, a notice). `port`: the one it came to, as programs number it.
std::optional<wire::Mad> answer(std::span<const std::byte, wire::kMadBytes> request,
                                std::uint8_t port, const PortCounters& counters);

}  // namespace softhca::management
