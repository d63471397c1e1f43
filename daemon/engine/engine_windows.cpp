// Commands that send nothing: binding and invalidating memory windows. Each runs when all commands
// before it are complete, which is more order than the specification asks for (10.8.3.3).
#include "abi/checksum.hpp"
#include "daemon/engine/engine.hpp"

namespace softhca::engine {
namespace {

constexpr std::uint32_t kWindowAccess =
    memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic | memory::kZeroBased;

}  // namespace

bool Engine::is_window_command(const abi::CommandHeader& header) {
  return header.opcode == static_cast<std::uint8_t>(abi::Opcode::kBindWindow) ||
         header.opcode == static_cast<std::uint8_t>(abi::Opcode::kLocalInvalidate);
}

/// REQUIRES: counted among qp.started.
void Engine::run_window_command(QueuePair& qp, PcbId pcb) {
  if (qp.started > 1) {
    --qp.started;
    qp.held.push_front(commands_.data(), pcb.value);
    return;
  }
  const collect::Pcb& buffer = pcbs_.pcb(pcb);
  Verdict verdict = Verdict::kLocalQpOperation;
  if (!abi::checksum_matches(buffer.header, buffer.payload.data()))
    qp.tenant->counters.bad_checksums.add();
  else if (qp.type != QpType::kUd)
    verdict = buffer.header.opcode == static_cast<std::uint8_t>(abi::Opcode::kBindWindow)
                  ? bind_window(qp, buffer.header)
                  : invalidate(qp, Rkey(buffer.header.rkey));
  complete_command(qp, pcb, verdict);
}

Verdict Engine::bind_window(QueuePair& qp, const abi::CommandHeader& header) {
  memory::Window* window = windows_.find(header.rkey);
  if (window == nullptr || window->pd != qp.pd) return Verdict::kWindowBind;
  return memory::bind(*window, keys_, static_cast<std::uint32_t>(header.swap), header.remote_addr,
                      header.compare_add, header.imm & kWindowAccess, header.rkey, qp.qpn);
}

/// Only windows of type 2 can be invalidated, through the queue pair they are bound to
/// (o10-37.2.17). kLocalQpOperation: there is none with this key.
Verdict Engine::invalidate(const QueuePair& qp, Rkey rkey) {
  memory::Window* window = windows_.lookup(rkey.value);
  if (window == nullptr || !window->of_queue_pair || !window->bound || window->pd != qp.pd ||
      window->qpn != qp.qpn)
    return Verdict::kLocalQpOperation;
  window->bound = false;
  return Verdict::kOk;
}

}  // namespace softhca::engine
