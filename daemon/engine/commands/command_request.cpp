// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/commands/command_request.hpp"

#include <algorithm>

#include "abi/checksum.hpp"
#include "daemon/roce/transport/flush.hpp"
#include "daemon/roce/transport/segment.hpp"

namespace softhca::engine {
namespace {

using transport::is_indivisible;
using transport::RequestKind;
using transport::stores_response;

/// Returns the kind of request of an opcode in `kind`. False: this type of queue pair does not take
/// it.
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
    case abi::Opcode::kFlush:
      kind = RequestKind::kFlush;
      return type == QpType::kRc;
    default:
      return false;
  }
}

/// Checks a flush: it has no payload, and the range that it names is at most as long as a message.
Verdict check_flush_command(const abi::CommandHeader& header, std::uint32_t brought) {
  if (header.swap > 0xff || !transport::is_flush(static_cast<std::uint32_t>(header.swap)))
    return Verdict::kLocalQpOperation;
  return brought == 0 && header.compare_add <= transport::kMaxMessageBytes ? Verdict::kOk
                                                                           : Verdict::kLocalLength;
}

std::uint64_t sum_of_lengths(const collect::Pcb& command) {
  if (command.header.payload_bytes > abi::kCommandPayloadBytes) return 0;
  if (collect::is_inline(command)) return command.header.payload_bytes;
  std::uint64_t sum = 0;
  for (const abi::ScatterGather& entry : collect::entries_of(command)) sum += entry.length;
  return sum;
}

}  // namespace

std::uint32_t declared_bytes(const collect::Pcb& command) {
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(sum_of_lengths(command), transport::kMaxMessageBytes));
}

Verdict build_request(const QueuePair& qp, PcbId pcb, const collect::Pcb& command,
                      MemoryAccess& memory, transport::Request& out) {
  const abi::CommandHeader& header = command.header;
  if (!kind_of(qp.type, header.opcode, out.kind)) return Verdict::kLocalQpOperation;
  if (!abi::checksum_matches(header, command.payload.data())) {
    qp.tenant->counters.refused.bad_checksums.add();
    return Verdict::kLocalQpOperation;
  }

  std::uint32_t length = 0;
  const Verdict measured = memory.measure(qp, command, stores_response(out.kind), length);
  if (measured != Verdict::kOk) return measured;
  if (is_indivisible(out.kind) && length != sizeof(std::uint64_t)) return Verdict::kLocalLength;
  if (out.kind == RequestKind::kFlush)
    if (const Verdict flushed = check_flush_command(header, length); flushed != Verdict::kOk)
      return flushed;
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
  return Verdict::kOk;
}

Refusal explain_request(const QueuePair& qp, const collect::Pcb& command) {
  const abi::CommandHeader& header = command.header;
  const std::uint64_t length = sum_of_lengths(command);
  RequestKind kind{};
  const bool messages = is_message(header);
  if (messages ? !kind_of(qp.type, header.opcode, kind) : qp.type == QpType::kUd)
    return {.cause = RefusalCause::kOpcode, .state = static_cast<std::uint8_t>(qp.type)};
  if (!abi::checksum_matches(header, command.payload.data()))
    return {.cause = RefusalCause::kChecksum};
  if (!messages) return {.cause = RefusalCause::kNoWindow};
  if (collect::is_inline(command) && stores_response(kind))
    return {.cause = RefusalCause::kInlineResponse, .length = length};
  if (is_indivisible(kind) && length != sizeof(std::uint64_t))
    return {.cause = RefusalCause::kNotEightBytes, .length = length};
  if (kind == RequestKind::kFlush && check_flush_command(header, 0) == Verdict::kLocalQpOperation)
    return {.cause = RefusalCause::kFlushType};
  const std::uint64_t limit = qp.type == QpType::kUd ? qp.rc.mtu : transport::kMaxMessageBytes;
  if (length > limit || kind == RequestKind::kFlush)
    return {.cause = RefusalCause::kMessageTooLong, .length = length, .limit = limit};
  if (awaits_response(kind) && qp.rc.max_rd_atomic == 0)
    return {.cause = RefusalCause::kNoReadsOut};
  if (qp.type == QpType::kUd) return {.cause = RefusalCause::kAddressHandle};
  return {.cause = RefusalCause::kTooManyCommands, .limit = qp.sq.ring.entries()};
}

}  // namespace softhca::engine
