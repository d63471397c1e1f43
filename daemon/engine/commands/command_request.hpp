// SPDX-License-Identifier: Apache-2.0

// Validates a command, which is in a PCB by now, private to the daemon.
#pragma once

#include "daemon/engine/memory/memory_access.hpp"
#include "daemon/engine/records/queue_pair.hpp"
#include "daemon/roce/transport/upcalls.hpp"

namespace softhca::engine {

/// True if the command sends a message. False if it concerns only a memory window.
inline bool is_message(const abi::CommandHeader& header) {
  return header.opcode != static_cast<std::uint8_t>(abi::Opcode::kBindWindow) &&
         header.opcode != static_cast<std::uint8_t>(abi::Opcode::kLocalInvalidate);
}
/// Returns the length of the message, in bytes, as the command claims it; checks nothing.
std::uint32_t declared_bytes(const collect::Pcb& command);

/// Builds the request for the command of a PCB. Verdicts: what is wrong with the command.
Verdict build_request(const QueuePair& qp, PcbId pcb, const collect::Pcb& command,
                      MemoryAccess& memory, transport::Request& out);

/// Explains why a command is malformed, apart from its memory: which check of build_request() or of
/// its execution fails. kNoWindow: it invalidates a window, and its key is wrong.
Refusal explain_request(const QueuePair& qp, const collect::Pcb& command);

}  // namespace softhca::engine
