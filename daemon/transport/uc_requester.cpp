#include <bit>
#include <cassert>

#include "daemon/transport/segment.hpp"
#include "daemon/transport/uc.hpp"

namespace softhca::transport {
namespace {

constexpr std::uint8_t kUcOpcodes = wire::raw(wire::Opcode::kUcSendFirst);
static_assert(kUcOpcodes + wire::raw(wire::Opcode::kRcWriteOnlyImm) ==
              wire::raw(wire::Opcode::kUcWriteOnlyImm));

/// Unreliable connections know no reads, atomics and remote invalidation (9.8.2, table 38).
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

bool UcRequester::transmit(Environment& env, unsigned packet_budget) {
  while (!failed_ && !queue_.empty()) {
    if (packet_budget-- == 0) return true;
    const RequestSlot& slot = queue_[queue_.oldest()];
    const Request& r = slot.request;
    if (!is_possible(r.kind)) return fail(env, Verdict::kLocalQpOperation);
    wire::Headers h;
    h.destination = attributes_.destination;
    h.pkey = attributes_.pkey;
    h.psn = next_psn_;
    fill_segment(h, r, index_, slot.packets);
    h.opcode += kUcOpcodes;
    switch (env.send(h, segment_payload(r, index_, mtu_shift_))) {
      case SendResult::kSent:
        break;
      case SendResult::kNoBuffer:
        return true;
      case SendResult::kNoAccess:
        return fail(env, Verdict::kLocalProtection);
    }
    ++next_psn_;
    if (++index_ < slot.packets) continue;
    index_ = 0;
    env.complete_request(queue_.pop(), Verdict::kOk);
  }
  return false;
}

void UcRequester::flush(Environment& env) {
  failed_ = true;
  while (!queue_.empty()) env.complete_request(queue_.pop(), Verdict::kFlushed);
}

/// The oldest request ends with an error; nothing more can be sent.
bool UcRequester::fail(Environment& env, Verdict verdict) {
  failed_ = true;
  env.complete_request(queue_.pop(), verdict);
  env.enter_error(std::nullopt);
  return false;
}

}  // namespace softhca::transport
