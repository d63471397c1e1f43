#include <bit>
#include <cassert>

#include "daemon/transport/segment.hpp"
#include "daemon/transport/uc.hpp"

namespace softhca::transport {
namespace {

// A packet up to so far behind the expected one is a late or doubled one, as an IP network may
// deliver it, and must not be executed again. The specification (9.8.2.2.1) has the responder take
// any first packet as a new message; beyond this distance we do, too.
constexpr std::int32_t kLatePackets = 1 << 16;

}  // namespace

void UcResponder::configure(const UcAttributes& attributes) {
  assert(std::has_single_bit(attributes.mtu));
  attributes_ = attributes;
}

void UcResponder::reset(Psn rq_psn) {
  expected_ = rq_psn;
  message_ = Message::kNone;
  drawn_ = failed_ = false;
}

void UcResponder::flush(const ReceiverUpcalls& up) {
  failed_ = true;
  message_ = Message::kNone;
  if (!drawn_) return;
  drawn_ = false;
  ReceiveCompletion c;
  c.verdict = Verdict::kFlushed;
  up.receives.complete_receive(c);
}

/// Each failed check drops the message in progress, of which the rest is then out of sequence.
void UcResponder::receive(const ReceiverUpcalls& up, const wire::Headers& h,
                          std::span<const std::byte> payload) {
  if (failed_) return up.events.count(Count::kBadState);
  const wire::OpcodeInfo& info = wire::opcode_info(h.opcode);
  if (info.transport != wire::Transport::kUc) return up.events.count(Count::kBadOpcode);
  const Packet p{h, payload, info.mask};
  if (!check_psn(up, p)) return;
  if (!check_sequence(p)) {
    message_ = Message::kNone;
    return up.events.count(Count::kOutOfSequence);
  }
  if (!check_length(p)) {
    message_ = Message::kNone;
    return up.events.count(Count::kBadLength);
  }
  if (!take(up, p)) message_ = Message::kNone;
}

bool UcResponder::check_psn(const ReceiverUpcalls& up, const Packet& p) {
  const std::int32_t distance = p.h.psn.distance_from(expected_);
  if (distance < 0 && distance >= -kLatePackets) {
    up.events.count(Count::kDuplicateRequests);
    return false;
  }
  if (distance != 0) {
    up.events.count(Count::kOutOfSequence);
    message_ = Message::kNone;
  }
  expected_ = p.h.psn + 1;
  return true;
}

/// A first packet ends an unfinished message before it (9.8.2.2.2).
bool UcResponder::check_sequence(const Packet& p) const {
  if (p.mask.has_all(wire::kStart)) return true;
  if (message_ == Message::kNone) return false;
  return p.mask.has_all(wire::kSend) == (message_ == Message::kSend);
}

bool UcResponder::check_length(const Packet& p) const {
  const std::size_t size = p.payload.size();
  const bool start = p.mask.has_all(wire::kStart);
  const bool end = p.mask.has_all(wire::kEnd);
  if (end ? size > attributes_.mtu || (size == 0 && !start) : size != attributes_.mtu) return false;
  if (!p.mask.has_all(wire::kWrite)) return true;
  const std::uint32_t left = start ? p.h.dma_length : remaining_;
  return left <= kMaxMessageBytes && (end ? size == left : size < left);
}

bool UcResponder::begin(const ReceiverUpcalls& up, const Packet& p) {
  offset_ = 0;
  if (p.mask.has_all(wire::kSend)) {
    message_ = Message::kSend;
    return draw(up);
  }
  message_ = Message::kWrite;
  rkey_ = p.h.rkey;
  addr_ = p.h.remote_addr;
  remaining_ = p.h.dma_length;
  return up.memory.check_remote(rkey_, addr_, remaining_, RemoteAccess::kWrite) == Verdict::kOk;
}

/// False: the message is dropped; a receive that was drawn for it stays with us.
bool UcResponder::take(const ReceiverUpcalls& up, const Packet& p) {
  if (p.mask.has_all(wire::kStart) && !begin(up, p)) return false;
  const std::uint32_t size = static_cast<std::uint32_t>(p.payload.size());
  if (message_ == Message::kSend) {
    if (offset_ + size > capacity_ || offset_ + size > kMaxMessageBytes) {
      up.events.count(Count::kBadLength);
      return false;
    }
    const Verdict stored = size == 0 ? Verdict::kOk : up.receives.store_receive(offset_, p.payload);
    if (stored != Verdict::kOk) {
      fail(up, stored);
      return false;
    }
  } else {
    if (p.mask.has_all(wire::kImmDt) && !draw(up)) return false;
    if (size > 0 && up.memory.write_remote(rkey_, addr_ + offset_, p.payload) != Verdict::kOk)
      return false;
    remaining_ -= size;
  }
  offset_ += size;
  if (p.mask.has_all(wire::kEnd)) finish(up, p);
  return true;
}

bool UcResponder::draw(const ReceiverUpcalls& up) {
  if (drawn_) return true;
  const std::optional<std::uint64_t> capacity = up.receives.draw_receive();
  if (!capacity) {
    up.events.count(Count::kReceiveDropped);
    return false;
  }
  capacity_ = *capacity;
  drawn_ = true;
  return true;
}

void UcResponder::finish(const ReceiverUpcalls& up, const Packet& p) {
  const bool write = message_ == Message::kWrite;
  message_ = Message::kNone;
  if (write) up.events.count(Count::kWriteRequests);
  if (write && !p.mask.has_all(wire::kImmDt)) return;
  ReceiveCompletion c;
  c.byte_len = static_cast<std::uint32_t>(offset_);
  c.from_write = write;
  c.has_imm = p.mask.has_all(wire::kImmDt);
  c.imm = p.h.imm;
  c.solicited = p.h.solicited;
  drawn_ = false;
  up.receives.complete_receive(c);
}

/// The consumer's receive is not accessible: it hears of that, and the queue pair ends.
void UcResponder::fail(const ReceiverUpcalls& up, Verdict verdict) {
  failed_ = true;
  drawn_ = false;
  ReceiveCompletion c;
  c.verdict = verdict;
  up.receives.complete_receive(c);
  up.events.enter_error(std::nullopt);
}

}  // namespace softhca::transport
