// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/adapter/refusal_text.hpp"

#include <algorithm>
#include <cstdio>

#include "daemon/engine/records/qp_attributes.hpp"
#include "daemon/roce/transport/codes.hpp"
#include "daemon/tenant_memory/region.hpp"

namespace softhca::control {
namespace {

constexpr CauseWords kCauses[] = {
    {RefusalCause::kNoRegion, "no_region", "no region of the tenant has the key"},
    {RefusalCause::kRegionEnded, "region_deregistered", "the region was deregistered"},
    {RefusalCause::kOtherDomain, "other_domain",
     "region or window and queue pair are of different protection domains"},
    {RefusalCause::kOutOfBounds, "out_of_bounds", "the access exceeds the region or window"},
    {RefusalCause::kNoRight, "no_right", "the region or window does not allow the access"},
    {RefusalCause::kNoQueuePairRight, "no_queue_pair_right",
     "the access flags of the queue pair do not allow the access"},
    {RefusalCause::kNotMapped, "not_mapped",
     "the process has not mapped the memory, has mapped it read-only, or has ended"},
    {RefusalCause::kNoWindow, "no_window", "no memory window of the tenant has the key"},
    {RefusalCause::kWindowNotBound, "window_not_bound",
     "the window is not bound, or was invalidated"},
    {RefusalCause::kWindowElsewhere, "window_elsewhere",
     "the window is bound to another queue pair"},
    {RefusalCause::kWindowRegionEnded, "window_region_gone",
     "the window's region was deregistered or changed since"},
    {RefusalCause::kWindowBound, "window_bound",
     "the window is bound, and must be invalidated first"},
    {RefusalCause::kWindowType, "window_type", "a window of type 1 cannot be invalidated"},
    {RefusalCause::kReceiveTooShort, "receive_too_short",
     "the receive is shorter than the message"},
    {RefusalCause::kMessageTooLong, "message_too_long",
     "the message is longer than 2^30 bytes, or a datagram than the MTU"},
    {RefusalCause::kNotEightBytes, "not_eight_bytes", "the buffer of an atomic is not 8 bytes"},
    {RefusalCause::kNotAligned, "not_aligned", "the address of an atomic is not a multiple of 8"},
    {RefusalCause::kPayloadLength, "payload_length",
     "a packet's payload does not fit the path MTU, the operation or the announced length"},
    {RefusalCause::kOpcode, "opcode", "the type of queue pair has no such operation"},
    {RefusalCause::kChecksum, "checksum", "the command changed while the engine fetched it"},
    {RefusalCause::kAddressHandle, "address_handle",
     "the address handle was destroyed, or is of another protection domain"},
    {RefusalCause::kNoReadsOut, "no_reads_out", "reads and atomics need max_rd_atomic above 0"},
    {RefusalCause::kTooManyReads, "too_many_reads",
     "more reads and atomics at once than the max_dest_rd_atomic of the responder"},
    {RefusalCause::kInlineResponse, "inline_response",
     "a read or atomic cannot store its result in inline data"},
    {RefusalCause::kPacketOrder, "packet_order",
     "a packet does not continue the message, as after a change of the peer's state"},
    {RefusalCause::kNoXrcQueue, "no_xrc_queue",
     "the XRC domain has no shared receive queue of this number"},
    {RefusalCause::kFlushType, "flush_type", "no such kind of flush"},
    {RefusalCause::kTooManyCommands, "too_many_commands", "more commands than the send queue has"},
    {RefusalCause::kNoAnswer, "no_answer", "the peer did not acknowledge"},
    {RefusalCause::kNoQueuePair, "no_queue_pair",
     "no queue pair of the peer's tenant has the number"},
    {RefusalCause::kQueuePairDestroyed, "queue_pair_destroyed",
     "the peer's queue pair was destroyed"},
    {RefusalCause::kProcessEnded, "process_ended",
     "the process with the peer's queue pair ended, or closed the device"},
    {RefusalCause::kPeerNotReady, "peer_not_ready",
     "the peer's queue pair is not in RTR, RTS or SQD"},
    {RefusalCause::kPeerConnectedElsewhere, "peer_connected_elsewhere",
     "the peer's queue pair is connected to another queue pair or address"},
    {RefusalCause::kPeerType, "peer_type", "the peer's queue pair is of another type"},
    {RefusalCause::kNoTenant, "no_tenant", "no tenant has the peer's address any more"},
    {RefusalCause::kNoReceive, "no_receive", "the peer had no receive for the message"},
    {RefusalCause::kPeerPsn, "peer_psn", "the peer's queue pair expects another PSN"},
    {RefusalCause::kInvalidRequestNak, "invalid_request_nak", "the peer answered 0x61"},
    {RefusalCause::kAccessNak, "access_nak", "the peer answered 0x62"},
    {RefusalCause::kOperationNak, "operation_nak", "the peer answered 0x63"},
    {RefusalCause::kBadResponse, "bad_response", "the response does not fit the request"},
};

std::string hex(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string decimal(std::uint64_t value) { return std::to_string(value); }

std::string bytes_text(std::uint64_t count) {
  return decimal(count) + (count == 1 ? " byte" : " bytes");
}

const char* name_of(RefusedOperation operation) {
  switch (operation) {
    case RefusedOperation::kNone:
      break;
    case RefusedOperation::kSend:
      return "send";
    case RefusedOperation::kWrite:
      return "RDMA write";
    case RefusedOperation::kRead:
      return "RDMA read";
    case RefusedOperation::kAtomic:
      return "atomic";
    case RefusedOperation::kAtomicWrite:
      return "atomic write";
    case RefusedOperation::kFlush:
      return "flush";
    case RefusedOperation::kBind:
      return "bind";
    case RefusedOperation::kInvalidate:
      return "invalidation";
    case RefusedOperation::kReceive:
      return "receive";
  }
  return "request";
}

std::string rights_text(std::uint32_t access) {
  constexpr std::pair<std::uint32_t, const char*> kRights[] = {
      {memory::kLocalWrite, "local write"},    {memory::kRemoteWrite, "remote write"},
      {memory::kRemoteRead, "remote read"},    {memory::kRemoteAtomic, "remote atomic"},
      {memory::kBindWindow, "window binding"}, {memory::kFlushGlobal, "global flush"},
  };
  std::string text;
  for (const auto& [bit, name] : kRights)
    if ((access & bit) != 0) text += (text.empty() ? "" : ", ") + std::string(name);
  return text.empty() ? "local read" : text;
}

/// Returns what was to be accessed, and how.
std::string access_text(const Refusal& r) {
  std::string text = name_of(r.operation);
  if (r.entries != 0)
    text += ", sg_list[" + decimal(r.entry) + "] of " + decimal(r.entries) + ":";
  else
    text += " of";
  if (r.operation == RefusedOperation::kInvalidate)
    return std::string(name_of(r.operation)) + " of key " + hex(r.key);
  text += ' ' + bytes_text(r.length) + " at " + hex(r.address) + " with key " + hex(r.key);
  if (r.needed != 0) text += ", needs " + rights_text(r.needed);
  return text;
}

/// Returns by how much the access exceeds the region.
std::string excess_text(const Refusal& r) {
  const std::uint64_t inside = r.address - r.region.address;
  if (r.address < r.region.address)
    return "begins " + bytes_text(r.region.address - r.address) + " before the region";
  if (inside == r.region.length) return "begins at the region's end";
  if (inside > r.region.length)
    return "begins " + bytes_text(inside - r.region.length) + " behind the region's end";
  return "ends " + bytes_text(r.length - (r.region.length - inside)) + " behind the region's end";
}

std::string ago_text(std::uint32_t ms) { return decimal(ms) + " ms before"; }

/// Returns the check of memory that failed.
std::string memory_check_text(const Refusal& r) {
  switch (r.cause) {
    case RefusalCause::kNoRegion:
      return "no region has this key";
    case RefusalCause::kRegionEnded:
      return "no region has this key; it was deregistered " + ago_text(r.ms);
    case RefusalCause::kOtherDomain:
      return "key of protection domain " + decimal(r.region.domain) + ", queue pair of " +
             decimal(r.domain);
    case RefusalCause::kOutOfBounds:
      return excess_text(r);
    case RefusalCause::kNoRight:
      return "the region lacks the right";
    case RefusalCause::kNoQueuePairRight:
      return r.granted == 0 ? "the queue pair's access flags allow nothing"
                            : "the queue pair's access flags allow only: " + rights_text(r.granted);
    case RefusalCause::kNotMapped:
      return "the process has not mapped this memory so, or has ended";
    case RefusalCause::kNoWindow:
      return "no memory window has this key";
    case RefusalCause::kWindowNotBound:
      return "this memory window is not bound";
    case RefusalCause::kWindowElsewhere:
      return "this memory window is bound to queue pair " + decimal(r.qpn.value);
    case RefusalCause::kWindowRegionEnded:
      return "the region of this memory window was deregistered or changed";
    case RefusalCause::kWindowBound:
      return "this memory window is bound; invalidate it first";
    default:
      return "this memory window is of type 1, which cannot be invalidated";
  }
}

std::string memory_text(const Refusal& r) {
  std::string text = access_text(r) + ": " + memory_check_text(r);
  if (!r.has_region) return text;
  text += " (region of " + bytes_text(r.region.length) + " at " + hex(r.region.address) +
          ", rights " + rights_text(r.granted) + ", protection domain " + decimal(r.region.domain) +
          ")";
  return text;
}

/// Returns the check of a request or its length that failed.
std::string request_text(const Refusal& r) {
  switch (r.cause) {
    case RefusalCause::kReceiveTooShort:
      return "message of " + bytes_text(r.length) + (r.more_follows ? " or more" : "") +
             ", receive of " + bytes_text(r.limit);
    case RefusalCause::kMessageTooLong:
      return "message of " + bytes_text(r.length) + ", at most " + decimal(r.limit);
    case RefusalCause::kNotEightBytes:
      return std::string(name_of(r.operation)) + " with a buffer of " + bytes_text(r.length) +
             ", expected 8";
    case RefusalCause::kNotAligned:
      return "atomic at " + hex(r.address) + ", which is not a multiple of 8";
    case RefusalCause::kPayloadLength:
      return "packet with " + bytes_text(r.length) +
             " of payload, which does not fit its operation, the announced length or the path MTU "
             "of " +
             decimal(r.limit);
    case RefusalCause::kOpcode:
      return std::string(name_of(r.operation)) + ": no such operation on a queue pair of type " +
             engine::name_of(static_cast<engine::QpType>(r.state));
    case RefusalCause::kChecksum:
      return "the command changed while the engine fetched it (memory overwritten?)";
    case RefusalCause::kAddressHandle:
      return "the address handle was destroyed, or is of another protection domain";
    case RefusalCause::kNoReadsOut:
      return std::string(name_of(r.operation)) + " with max_rd_atomic 0";
    case RefusalCause::kTooManyReads:
      return "one more read or atomic than the responder's max_dest_rd_atomic of " +
             decimal(r.limit);
    case RefusalCause::kInlineResponse:
      return std::string(name_of(r.operation)) + " with inline data, which cannot take its result";
    case RefusalCause::kPacketOrder:
      return "a packet that does not continue the message";
    case RefusalCause::kNoXrcQueue:
      return "no shared receive queue of the XRC domain has number " + decimal(r.length);
    case RefusalCause::kFlushType:
      return "no such kind of flush";
    default:
      return "more commands than the " + decimal(r.limit) + " of the send queue";
  }
}

std::string timeout_text(std::uint64_t code) {
  const Duration wait = transport::ack_timeout(static_cast<std::uint8_t>(code));
  if (wait == Duration::zero()) return "timeout 0 (never)";
  char text[48];
  std::snprintf(text, sizeof text, "timeout %u (%.3g ms)", static_cast<unsigned>(code),
                std::chrono::duration<double, std::milli>(wait).count());
  return text;
}

/// Returns what the daemon knows of a peer of its own.
std::string absence_text(const Refusal& r, const RefusalPeer& peer) {
  const std::string number = decimal(peer.qpn.value);
  const std::string its = "; " + peer.address + " is tenant " + peer.tenant;
  switch (r.cause) {
    case RefusalCause::kNoQueuePair:
      return its + ", which has no queue pair " + number;
    case RefusalCause::kQueuePairDestroyed:
      return its + "; process " + decimal(r.process) + " destroyed its queue pair " + number +
             ", " + ago_text(r.ms);
    case RefusalCause::kProcessEnded:
      return its + "; process " + decimal(r.process) + ", which had queue pair " + number +
             ", ended or closed the device " + ago_text(r.ms);
    case RefusalCause::kPeerNotReady:
      return its + "; its queue pair " + number + " is in " +
             engine::name_of(static_cast<engine::QpState>(r.state));
    case RefusalCause::kPeerConnectedElsewhere:
      return its + "; its queue pair " + number + " is connected to " +
             (r.qpn == Qpn() ? "another address" : "queue pair " + decimal(r.qpn.value));
    case RefusalCause::kPeerType:
      return its + "; its queue pair " + number + " is of another type";
    case RefusalCause::kPeerPsn:
      return its + "; its queue pair " + number + " expects PSN " +
             decimal(r.psns.expected.value()) + ", this one is at " + decimal(r.psns.sent.value());
    case RefusalCause::kNoTenant:
      return "; no tenant has " + peer.address + " any more";
    default:  // kNoAnswer
      return r.of_other_tenant ? its + "; its queue pair " + number + " does not answer this one"
                               : "";
  }
}

std::string silence_text(const Refusal& r, const RefusalPeer& peer) {
  return std::string("no acknowledgement with retry_cnt ") + decimal(r.retries) + ", " +
         timeout_text(r.limit) + absence_text(r, peer);
}

/// Returns what a peer refused without a reason, or answered wrongly.
std::string nak_text(const Refusal& r) {
  std::string text = std::string(name_of(r.operation)) + " of " + bytes_text(r.length);
  if (r.key != 0) text += " at " + hex(r.address) + " with key " + hex(r.key);
  if (r.cause != RefusalCause::kBadResponse) return "the peer refused " + text;
  return "the response does not fit " + text + "; compare the path MTUs of both ends";
}

}  // namespace

std::span<const CauseWords> refusal_causes() { return kCauses; }

const char* name_of(RefusalCause cause) {
  return std::ranges::find(kCauses, cause, &CauseWords::cause)->name;
}

std::string text_of(const Refusal& refusal, const RefusalPeer& peer) {
  const auto in = [&](RefusalCause first, RefusalCause last) {
    return first <= refusal.cause && refusal.cause <= last;
  };
  if (!refusal) return "";
  if (refusal.cause == RefusalCause::kNoReceive)
    return "no receive for " + bytes_text(refusal.length) + " with rnr_retry " +
           decimal(refusal.retries);
  if (in(RefusalCause::kNoAnswer, RefusalCause::kNoTenant) ||
      refusal.cause == RefusalCause::kPeerPsn)
    return silence_text(refusal, peer);
  if (in(RefusalCause::kInvalidRequestNak, RefusalCause::kBadResponse)) return nak_text(refusal);
  const std::string text = in(RefusalCause::kNoRegion, RefusalCause::kWindowType)
                               ? memory_text(refusal)
                               : request_text(refusal);
  return refusal.side == RefusalSide::kPeer ? "at the peer: " + text : text;
}

}  // namespace softhca::control
