// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/queue_pairs/command_refusals.hpp"

#include "daemon/engine/commands/command_request.hpp"

namespace softhca::engine {
namespace {

RefusedOperation operation_of(std::uint8_t opcode) {
  switch (static_cast<abi::Opcode>(opcode)) {
    case abi::Opcode::kRdmaWrite:
    case abi::Opcode::kRdmaWriteWithImm:
      return RefusedOperation::kWrite;
    case abi::Opcode::kRdmaRead:
      return RefusedOperation::kRead;
    case abi::Opcode::kCompareSwap:
    case abi::Opcode::kFetchAdd:
      return RefusedOperation::kAtomic;
    case abi::Opcode::kAtomicWrite:
      return RefusedOperation::kAtomicWrite;
    case abi::Opcode::kFlush:
      return RefusedOperation::kFlush;
    case abi::Opcode::kBindWindow:
      return RefusedOperation::kBind;
    case abi::Opcode::kLocalInvalidate:
      return RefusedOperation::kInvalidate;
    default:
      return RefusedOperation::kSend;
  }
}

/// True if the responses to the command are stored in the memory of its list.
bool stores_response(std::uint8_t opcode) {
  const RefusedOperation operation = operation_of(opcode);
  return operation == RefusedOperation::kRead || operation == RefusedOperation::kAtomic;
}

RefusalCause nak_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kRemoteInvalidRequest:
      return RefusalCause::kInvalidRequestNak;
    case Verdict::kRemoteAccess:
      return RefusalCause::kAccessNak;
    case Verdict::kRemoteOperation:
      return RefusalCause::kOperationNak;
    default:
      return RefusalCause::kBadResponse;
  }
}

}  // namespace

Refusal CommandRefusals::explain(const QueuePair& qp, const collect::Pcb& command,
                                 Verdict verdict) const {
  Refusal out = find_cause(qp, command, verdict);
  const abi::CommandHeader& header = command.header;
  if (out.operation == RefusedOperation::kNone) out.operation = operation_of(header.opcode);
  if (out.key != 0 || out.length != 0) return out;
  out.length = declared_bytes(command);
  if (out.operation == RefusedOperation::kSend) return out;
  out.key = header.rkey;
  out.address = header.remote_addr;
  return out;
}

Refusal CommandRefusals::find_cause(const QueuePair& qp, const collect::Pcb& command,
                                    Verdict verdict) const {
  const abi::CommandHeader& header = command.header;
  switch (verdict) {
    case Verdict::kLocalProtection:
      return explain_entries(qp, command);
    case Verdict::kLocalLength:
      return explain_request(qp, command);
    case Verdict::kLocalQpOperation: {
      Refusal out = explain_request(qp, command);
      if (out.cause != RefusalCause::kNoWindow) return out;
      out = memory_.explain_invalidate(qp, Rkey(header.rkey));
      out.side = RefusalSide::kCommand;
      return out;
    }
    case Verdict::kWindowBind:
      return memory_.explain_bind(qp, header, history_.now());
    case Verdict::kRetryExceeded:
      return explain_silence(qp);
    case Verdict::kRnrRetryExceeded:
      return {.cause = RefusalCause::kNoReceive,
              .side = RefusalSide::kPeer,
              .retries = qp.rc.rnr_retry};
    default:
      return explain_peer(qp, verdict);
  }
}

Refusal CommandRefusals::explain_entries(const QueuePair& qp, const collect::Pcb& command) const {
  const std::uint32_t needed =
      stores_response(command.header.opcode) ? memory::kLocalWrite : memory::kLocalRead;
  return memory_.explain_entries(collect::entries_of(command), qp, qp.pd, {0, ~std::uint64_t{0}},
                                 needed, history_.now());
}

/// Explains what the peer refused. A peer of another tenant or on another host says only the code
/// of its NAK.
Refusal CommandRefusals::explain_peer(const QueuePair& qp, Verdict verdict) const {
  if (qp.is_local()) {
    const QueuePair* const peer = queue_pairs_.find(qp.connection.destination);
    if (peer != nullptr && peer->tenant == qp.tenant) {
      Refusal out = history_.refusal(*peer);
      const bool is_new = out && out.at == history_.now();
      if (is_new && (out.side == RefusalSide::kServed || out.side == RefusalSide::kReceive)) {
        out.side = RefusalSide::kPeer;
        return out;
      }
    }
  }
  return {.cause = nak_of(verdict), .side = RefusalSide::kPeer};
}

Refusal CommandRefusals::explain_silence(const QueuePair& qp) const {
  Refusal out{.cause = RefusalCause::kNoAnswer,
              .side = RefusalSide::kPeer,
              .retries = qp.rc.retry_count,
              .limit = qp.rc.timeout};
  if (qp.is_local()) explain_absence(qp, out);
  return out;
}

/// Explains why a queue pair of this daemon does not answer. Details are for its own tenant.
void CommandRefusals::explain_absence(const QueuePair& qp, Refusal& out) const {
  const AddressPath& path = qp.connection.route.path;
  const Tenant* const owner = addresses_.owner(path.destination, path.port);
  out.of_other_tenant = owner != qp.tenant;
  if (owner == nullptr) {
    out.cause = RefusalCause::kNoTenant;
    return;
  }
  out.has_tenant = true;
  out.tenant = owner->id;
  const QueuePair* const peer = queue_pairs_.find(qp.connection.destination);
  if (peer == nullptr || peer->tenant != owner) {
    out.cause = RefusalCause::kNoQueuePair;
    const QpTable::Former* const former = queue_pairs_.former(qp.connection.destination);
    if (out.of_other_tenant || former == nullptr || former->tenant != owner->id) return;
    out.cause =
        former->with_session ? RefusalCause::kProcessEnded : RefusalCause::kQueuePairDestroyed;
    out.process = former->process;
    out.ms = milliseconds_between(former->at, history_.now());
  } else if (out.of_other_tenant) {
    return;
  } else if (peer->type != peer_type(qp.type)) {
    out.cause = RefusalCause::kPeerType;
  } else if (!may_receive(peer->state) || peer->error.pending) {
    out.cause = RefusalCause::kPeerNotReady;
    out.state = static_cast<std::uint8_t>(peer->state);
  } else if (peer->connection.destination != qp.qpn ||
             !peer->tenant->answers_to(peer->connection.route.path.source, path.destination,
                                       peer->connection.route.path.port) ||
             peer->connection.route.path.destination != path.source) {
    out.cause = RefusalCause::kPeerConnectedElsewhere;
    out.qpn = peer->connection.destination;
    if (out.qpn == qp.qpn) out.qpn = Qpn();
  } else if (const auto* there = std::get_if<transport::Local>(&peer->transport)) {
    out.psns = {std::get<transport::Local>(qp.transport).position().send,
                there->position().receive};
    if (out.psns.sent != out.psns.expected) out.cause = RefusalCause::kPeerPsn;
  }
}

}  // namespace softhca::engine
