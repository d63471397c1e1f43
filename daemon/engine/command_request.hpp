// Validating a command. It lies in a PCB by now, private to the daemon.
#pragma once

#include "daemon/engine/memory_access.hpp"
#include "daemon/engine/queue_pair.hpp"
#include "daemon/transport/upcalls.hpp"

namespace softhca::engine {

/// False: the command sends nothing, it concerns a memory window alone.
bool is_message(const abi::CommandHeader& header);
/// Bytes of the message, as the command says; nothing of it is checked.
std::uint32_t declared_bytes(const collect::Pcb& command);

/// The request that the command of a PCB stands for. Verdicts: what is wrong with the command.
Verdict build_request(const QueuePair& qp, PcbId pcb, const collect::Pcb& command,
                      MemoryAccess& memory, transport::Request& out);

}  // namespace softhca::engine
