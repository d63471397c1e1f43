// SPDX-License-Identifier: Apache-2.0

#include <bit>
#include <cassert>

#include "daemon/roce/transport/segment.hpp"
#include "daemon/roce/transport/uc.hpp"

namespace softhca::transport {
namespace {

constexpr std::uint8_t kUcOpcodes = wire::raw(wire::Opcode::kUcSendFirst);
static_assert(kUcOpcodes + wire::raw(wire::Opcode::kRcWriteOnlyImm) ==
              wire::raw(wire::Opcode::kUcWriteOnlyImm));

/// True if UC supports the request. It has no reads, atomics or remote invalidation (9.8.2, table
/// 38).
bool is_possible(RequestKind k) { return !awaits_response(k) && k != RequestKind::kSendInvalidate; }

}  // namespace

void UcRequester::configure(const UcAttributes& attributes) {
  assert(std::has_single_bit(attributes.mtu));
  attributes_ = attributes;
  mtu_shift_ = static_cast<std::uint32_t>(std::countr_zero(attributes.mtu));
}

void UcRequester::reset(Psn sq_psn) {
  queue_.clear();
  next_psn_ = sq_psn;
  index_ = 0;
  failed_ = false;
}

void UcRequester::start(const Request& request) {
  assert(request.length <= kMaxMessageBytes);
  RequestSlot& slot = queue_.push(request);
  slot.packets = packets_of(request.length, mtu_shift_);
}

bool UcRequester::transmit(const SenderUpcalls& up, unsigned packet_budget) {
  while (!failed_ && !queue_.empty()) {
    if (packet_budget-- == 0) return true;
    const RequestSlot& slot = queue_[queue_.oldest()];
    const Request& r = slot.request;
    if (!is_possible(r.kind)) return fail(up, Verdict::kLocalQpOperation);
    wire::Headers h;
    h.destination = attributes_.destination;
    h.pkey = attributes_.pkey;
    h.psn = next_psn_;
    fill_segment(h, r, index_, slot.packets);
    h.opcode += kUcOpcodes;
    switch (up.packets.send(h, segment_payload(r, index_, mtu_shift_))) {
      case SendResult::kSent:
        break;
      case SendResult::kNoBuffer:
        return true;
      case SendResult::kNoAccess:
        return fail(up, Verdict::kLocalProtection);
    }
    ++next_psn_;
    if (index_ == 0) up.commands.request_begun(r.pcb);
    if (++index_ < slot.packets) continue;
    index_ = 0;
    up.commands.complete_request(queue_.pop(), Verdict::kOk);
  }
  return false;
}

void UcRequester::flush(const SenderUpcalls& up) {
  failed_ = true;
  while (!queue_.empty()) up.commands.complete_request(queue_.pop(), Verdict::kFlushed);
}

/// Completes the oldest request with an error; nothing more can be sent.
bool UcRequester::fail(const SenderUpcalls& up, Verdict verdict) {
  failed_ = true;
  up.commands.complete_request(queue_.pop(), verdict);
  up.events.enter_error(std::nullopt);
  return false;
}

}  // namespace softhca::transport
