// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/transport/incoming_message.hpp"

#include <cassert>

namespace softhca::transport {

void IncomingMessage::reset() {
  kind_ = Kind::kNone;
  drawn_ = false;
}

PartOfMessage IncomingMessage::part() const {
  if (offset_ == 0) return {};
  return {.kind = kind_,
          .received = static_cast<std::uint32_t>(offset_),
          .remaining = kind_ == Kind::kWrite ? remaining_ : 0,
          .rkey = rkey_,
          .addr = addr_};
}

void IncomingMessage::resume(const PartOfMessage& part, ReceiveSource& receives) {
  reset();
  kind_ = part.kind;
  offset_ = part.received;
  remaining_ = part.remaining;
  rkey_ = part.rkey;
  addr_ = part.addr;
  if (!is_send()) return;
  capacity_ = 0;
  draw(receives);
}

void IncomingMessage::begin_send() {
  kind_ = Kind::kSend;
  offset_ = 0;
}

void IncomingMessage::begin_write(const wire::Headers& h) {
  kind_ = Kind::kWrite;
  offset_ = 0;
  rkey_ = h.rkey;
  addr_ = h.remote_addr;
  remaining_ = h.dma_length;
}

bool IncomingMessage::draw(ReceiveSource& receives) {
  if (drawn_) return true;
  const std::optional<std::uint64_t> capacity = receives.draw_receive();
  if (!capacity) return false;
  capacity_ = *capacity;
  drawn_ = true;
  return true;
}

void IncomingMessage::complete_receive(ReceiveSource& receives, const RequestPacket& last) {
  assert(drawn_);
  ReceiveCompletion c;
  c.byte_len = static_cast<std::uint32_t>(offset_);
  c.from_write = kind_ == Kind::kWrite;
  c.has_imm = last.mask.has_all(wire::kImmDt);
  c.invalidated = last.mask.has_all(wire::kIeth);
  c.imm = c.invalidated ? last.h.invalidate.value : last.h.imm;
  c.solicited = last.h.solicited;
  drawn_ = false;
  receives.complete_receive(c);
}

void IncomingMessage::fail_receive(ReceiveSource& receives, Verdict verdict) {
  if (!drawn_) return;
  drawn_ = false;
  ReceiveCompletion c;
  c.verdict = verdict;
  receives.complete_receive(c);
}

}  // namespace softhca::transport
