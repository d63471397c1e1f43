// SPDX-License-Identifier: Apache-2.0

// Encodes and decodes transport headers. The opcode table says which headers a packet has.
#pragma once

#include <cstddef>
#include <span>

#include "daemon/roce/wire/drop_reason.hpp"
#include "daemon/roce/wire/headers.hpp"
#include "daemon/roce/wire/opcode.hpp"

namespace softhca::wire {

/// Returns the bytes of padding that bring a payload to a multiple of four.
constexpr std::size_t pad_for(std::size_t payload_length) { return (0 - payload_length) & 3; }

/// Reads the headers of `packet`: a transport packet from the base transport header to the end of
/// the pad, without ICRC. On kNone, `out` is filled (headers that the opcode does not have are
/// zero) and the payload is packet[header_length, size - pad). Otherwise `out` is unspecified.
[[nodiscard]] DropReason decode(std::span<const std::byte> packet, Headers& out);

/// Writes the headers of `h` for a payload of `payload_length` bytes. The pad count follows from
/// the length; h.pad is ignored. Returns the bytes written, which are
/// opcode_info(h.opcode).header_length. REQUIRES: h.opcode is known, and `to` has room.
std::size_t encode(const Headers& h, std::size_t payload_length, std::byte* to);

}  // namespace softhca::wire
