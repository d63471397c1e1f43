// SPDX-License-Identifier: Apache-2.0

// Packets, verdicts and events as short text, so that tests read as scripts:
//
//   SEND_FIRST 7 [0,256)       packet 7 of a send, bytes 0 to 255 of the message
//   WRITE_ONLY 7 1000+40 [0,40) ?   to address 0x1000; ? asks for an acknowledgement, ! is
//   solicited READ_REQ 7 1000+600 ?      600 bytes from 0x1000 READ_RESP_LAST 9 1200+88 msn 1 ACK 7
//   msn 3                with "credits n" when the responder counts them NAK 60 7 msn 3, RNR 12 7
//   msn 3, ATOMIC_ACK 7 msn 1 =42
#pragma once

#include <cstdint>
#include <string>

#include "daemon/roce/transport/upcalls.hpp"

namespace softhca::transport {

std::string hex(std::uint64_t v);
/// " [from,end)", or nothing for an empty range.
std::string range(std::uint64_t from, std::uint64_t length);
std::string to_text(RemoteAccess access);
std::string to_text(const wire::Headers& h, const PayloadSource& payload);
std::string to_text(const ReceiveCompletion& c);
std::string to_text(Verdict v);
std::string to_text(AsyncEvent e);

}  // namespace softhca::transport
