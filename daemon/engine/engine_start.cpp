// Validating a command and handing it to its transport. By now it lies in a PCB, private to the
// daemon, and holds its credits.
#include "abi/checksum.hpp"
#include "daemon/engine/engine.hpp"
#include "daemon/transport/segment.hpp"

namespace softhca::engine {
namespace {

using transport::is_indivisible;
using transport::RequestKind;
using transport::stores_response;

/// Which request an opcode is; false: not one this kind of queue pair takes.
bool kind_of(QpType type, std::uint8_t opcode, RequestKind& kind) {
  switch (static_cast<abi::Opcode>(opcode)) {
    case abi::Opcode::kSend:
      kind = RequestKind::kSend;
      return true;
    case abi::Opcode::kSendWithImm:
      kind = RequestKind::kSendImm;
      return true;
    case abi::Opcode::kRdmaWrite:
      kind = RequestKind::kWrite;
      return type != QpType::kUd;
    case abi::Opcode::kRdmaWriteWithImm:
      kind = RequestKind::kWriteImm;
      return type != QpType::kUd;
    case abi::Opcode::kSendWithInvalidate:
      kind = RequestKind::kSendInvalidate;
      return is_reliable(type);
    case abi::Opcode::kRdmaRead:
      kind = RequestKind::kRead;
      return is_reliable(type);
    case abi::Opcode::kCompareSwap:
      kind = RequestKind::kCompareSwap;
      return is_reliable(type);
    case abi::Opcode::kFetchAdd:
      kind = RequestKind::kFetchAdd;
      return is_reliable(type);
    case abi::Opcode::kAtomicWrite:
      kind = RequestKind::kAtomicWrite;
      return type == QpType::kRc;
    default:
      return false;
  }
}

}  // namespace

std::size_t Engine::start_commands() {
  std::size_t started = 0;
  for (; started < cpu_.budget().starts; ++started) {
    const auto pcb = dispatch_.next();
    if (!pcb) break;
    start(*pcb);
  }
  return started;
}

void Engine::start(PcbId pcb) {
  QueuePair& qp = commands_.owner(pcb);
  // About to fail: nothing begins. And nothing overtakes a command that waits.
  if (qp.error_pending || !qp.held.empty()) {
    commands_.hold(qp, pcb);
    return;
  }
  dispatch(qp, pcb);
}

/// A command begins, by the way that it came.
void Engine::count(QueuePair& qp, PcbId pcb) {
  const bool dedicated = commands_.is_dedicated(pcb);
  const auto add = [&](auto& counters) {
    (dedicated ? counters.commands_doorbell : counters.commands_vcb).add();
  };
  add(qp.tenant->counters);
  if (Level* level = qp.session->level) add(level->counters);
}

void Engine::dispatch(QueuePair& qp, PcbId pcb) {
  ++qp.started;
  const std::uint32_t sequence = pcbs_.pcb(pcb).header.sequence;
  if (!qp.has_begun(sequence)) {  // else it was given back, and comes again
    qp.not_begun = sequence + 1;
    count(qp, pcb);
  }
  if (qp.state == QpState::kError) return complete_command(qp, pcb, Verdict::kFlushed);
  // More than the send queue holds: no honest process has so many under way.
  if (qp.started > qp.send_ring.entries()) {
    qp.tenant->counters.hostile_memory.add();
    async_events_.raise(qp, EventType::kQpFatal);
    return complete_command(qp, pcb, Verdict::kLocalQpOperation);
  }

  if (is_window_command(pcbs_.pcb(pcb).header)) return run_window_command(qp, pcb);
  transport::Request request;
  const Verdict verdict = build_request(qp, pcb, request);
  if (verdict != Verdict::kOk) return fail_command(qp, pcb, verdict);
  rates_.charge(*qp.tenant, request.length);

  std::visit([&](auto& transport) { transport.start(request); }, qp.transport);
  cpu_.make_ready(qp);
}

/// A command that cannot be executed fails after those before it have completed (IBA 10.8.3).
void Engine::fail_command(QueuePair& qp, PcbId pcb, Verdict verdict) {
  if (qp.started > 1) {
    --qp.started;
    commands_.hold_first(qp, pcb);
    return;
  }
  qp.tenant->counters.malformed_commands.add();
  complete_command(qp, pcb, verdict);
}

/// Called when what kept commands waiting may be over, also while it is running.
void Engine::release_held(QueuePair& qp) {
  if (qp.releasing) return;
  qp.releasing = true;
  while (!qp.held.empty() && !qp.error_pending) {
    const PcbId pcb = commands_.pop_held(qp);
    dispatch(qp, pcb);
    if (qp.held.front() == pcb.value) break;  // still waiting for those before it
  }
  qp.releasing = false;
}

Verdict Engine::build_request(const QueuePair& qp, PcbId pcb, transport::Request& out) {
  const collect::Pcb& buffer = pcbs_.pcb(pcb);
  const abi::CommandHeader& header = buffer.header;
  if (!kind_of(qp.type, header.opcode, out.kind)) return Verdict::kLocalQpOperation;
  if (!abi::checksum_matches(header, buffer.payload.data())) {
    qp.tenant->counters.bad_checksums.add();
    return Verdict::kLocalQpOperation;
  }

  std::uint32_t length = 0;
  const Verdict measured = memory_.measure(qp, buffer, stores_response(out.kind), length);
  if (measured != Verdict::kOk) return measured;
  if (is_indivisible(out.kind) && length != sizeof(std::uint64_t)) return Verdict::kLocalLength;
  if (qp.type == QpType::kUd && length > qp.rc.mtu) return Verdict::kLocalLength;

  out.solicited = (header.flags & abi::kCommandSolicited) != 0;
  out.fence = (header.flags & abi::kCommandFence) != 0;
  out.length = length;
  out.pcb = pcb;
  out.imm = header.imm;
  out.rkey = Rkey(header.rkey);
  out.remote_addr = header.remote_addr;
  out.compare_add = header.compare_add;
  out.swap = header.swap;
  out.xrc_srq = header.remote_srq & 0xffffff;
  commands_[pcb].length = length;
  return Verdict::kOk;
}

}  // namespace softhca::engine
