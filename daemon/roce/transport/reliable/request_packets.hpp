// SPDX-License-Identifier: Apache-2.0

// Packets of a request on a reliable connection, and the responses to them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/roce/transport/reliable/read_or_atomic.hpp"
#include "daemon/roce/transport/send_queue.hpp"
#include "daemon/roce/wire/headers.hpp"
#include "daemon/roce/wire/opcode.hpp"

namespace softhca::transport {

/// Attributes common to all requests of a connection.
struct RequestFormat {
  RcAttributes attributes;

  std::uint32_t mtu_shift() const {
    return static_cast<std::uint32_t>(std::countr_zero(attributes.mtu));
  }
};

/// Returns one beyond the PSN index that packet `index` of a request takes. A read takes the PSNs
/// of its responses.
inline std::uint32_t packet_end(const RequestSlot& slot, std::uint32_t index) {
  const bool is_read = slot.request.kind == RequestKind::kRead;
  return is_read ? read_part_end(slot.packets, index) : index + 1;
}

/// Returns the headers of packet `index` of a request, or of a request for responses [index, end)
/// of a read. It does not request an acknowledgement.
wire::Headers make_request(const RequestFormat& format, const RequestSlot& slot,
                           std::uint32_t index, std::uint32_t end);
/// Returns the payload of that packet.
inline PayloadSource request_payload(const RequestFormat& format, const RequestSlot& slot,
                                     std::uint32_t index) {
  return stores_response(slot.request.kind)
             ? PayloadSource()
             : segment_payload(slot.request, index, format.mtu_shift());
}

constexpr bool is_ack(std::uint8_t syndrome) {
  constexpr std::uint8_t kClass = 0xe0;
  return (syndrome & kClass) == wire::kSyndromeAck;
}

/// A response to a read or atomic.
struct ResponsePacket {
  const wire::Headers& h;
  std::span<const std::byte> payload;
  wire::OpcodeMask mask;
};
/// True if the response fits the request that has its PSN. Responses before `parts_end` may be the
/// last one of a part that was requested alone.
bool is_response_to(const RequestFormat& format, const RequestSlot& slot, const ResponsePacket& p,
                    Psn parts_end);
/// Stores the data of a response. REQUIRES: is_response_to().
Verdict store_response(const RequestFormat& format, LocalMemory& memory, const RequestSlot& slot,
                       const ResponsePacket& p);

}  // namespace softhca::transport
