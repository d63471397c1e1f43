#include "daemon/transport/incoming_message.hpp"

#include "daemon/transport/segment.hpp"

namespace softhca::transport {

bool RequestPacket::fits_opcode(std::uint32_t mtu) const {
  const std::size_t size = payload.size();
  if (!mask.has_all(wire::kPayload)) return size == 0;
  if (!ends()) return size == mtu;
  return size <= mtu && (size > 0 || starts());
}

void IncomingMessage::reset() {
  kind_ = Kind::kNone;
  drawn_ = false;
}

bool IncomingMessage::goes_on_with(const RequestPacket& p) const {
  switch (kind_) {
    case Kind::kSend:
      return p.mask.has_all(wire::kSend);
    case Kind::kWrite:
      return p.mask.has_all(wire::kWrite);
    case Kind::kNone:
      break;
  }
  return false;
}

bool IncomingMessage::fits_announcement(const RequestPacket& p) const {
  const std::uint32_t left = p.starts() ? p.h.dma_length : remaining_;
  if (left > kMaxMessageBytes) return false;
  return p.ends() ? p.payload.size() == left : p.payload.size() < left;
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

bool IncomingMessage::has_room(std::size_t bytes) const {
  const std::uint64_t end = offset_ + bytes;
  return end <= capacity_ && end <= kMaxMessageBytes;
}

Verdict IncomingMessage::store(ReceiveSource& receives, std::span<const std::byte> payload) {
  if (!payload.empty()) {
    const Verdict stored = receives.store_receive(offset_, payload);
    if (stored != Verdict::kOk) return stored;
  }
  offset_ += payload.size();
  return Verdict::kOk;
}

Verdict IncomingMessage::write(RemoteMemory& memory, std::span<const std::byte> payload) {
  if (!payload.empty()) {
    const Verdict written = memory.write_remote(rkey_, addr_ + offset_, payload);
    if (written != Verdict::kOk) return written;
  }
  offset_ += payload.size();
  remaining_ -= static_cast<std::uint32_t>(payload.size());
  return Verdict::kOk;
}

void IncomingMessage::complete_receive(ReceiveSource& receives, const RequestPacket& last) {
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
