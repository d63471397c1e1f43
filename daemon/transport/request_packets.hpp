// The packets of a request on a reliable connection: what it is sent as, and what answers it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/transport/read_or_atomic.hpp"
#include "daemon/transport/send_queue.hpp"
#include "daemon/wire/headers.hpp"
#include "daemon/wire/opcode.hpp"

namespace softhca::transport {

/// What all requests of a connection have in common.
struct RequestFormat {
  RcAttributes attributes;

  std::uint32_t mtu_shift() const {
    return static_cast<std::uint32_t>(std::countr_zero(attributes.mtu));
  }
};

/// One beyond the numbers that packet `index` of a request takes: a read has those of its
/// responses.
inline std::uint32_t packet_end(const RequestSlot& slot, std::uint32_t index) {
  const bool is_read = slot.request.kind == RequestKind::kRead;
  return is_read ? read_part_end(slot.packets, index) : index + 1;
}

/// Packet `index` of a request; of a read, the request for its responses [index, end). An
/// acknowledgement is not asked for.
wire::Headers make_request(const RequestFormat& format, const RequestSlot& slot,
                           std::uint32_t index, std::uint32_t end);
/// What it carries.
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

/// Responses to reads and atomics.
struct ResponsePacket {
  const wire::Headers& h;
  std::span<const std::byte> payload;
  wire::OpcodeMask mask;
};
/// May it answer the request, which has its number? Responses before `parts_end` may be the last of
/// a part that was asked for alone.
bool is_response_to(const RequestFormat& format, const RequestSlot& slot, const ResponsePacket& p,
                    Psn parts_end);
/// Stores what it brings. REQUIRES: is_response_to().
Verdict store_response(const RequestFormat& format, LocalMemory& memory, const RequestSlot& slot,
                       const ResponsePacket& p);

}  // namespace softhca::transport
