// SPDX-License-Identifier: Apache-2.0

// The message that a responder is receiving, of a reliable or an unreliable connection, and its
// receive work request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/base/types.hpp"
#include "daemon/roce/transport/position.hpp"
#include "daemon/roce/transport/segment.hpp"
#include "daemon/roce/transport/upcalls.hpp"
#include "daemon/roce/wire/headers.hpp"
#include "daemon/roce/wire/opcode.hpp"

namespace softhca::transport {

/// A request packet as it came.
struct RequestPacket {
  const wire::Headers& h;
  std::span<const std::byte> payload;
  wire::OpcodeMask mask;

  bool starts() const { return mask.has_all(wire::kStart); }
  bool ends() const { return mask.has_all(wire::kEnd); }
  /// True if the payload fits opcode and path MTU (InfiniBand specification, volume 1, 9.7.4.1.6).
  bool fits_opcode(std::uint32_t mtu) const;
};

class IncomingMessage {
 public:
  /// Drops the message and the receive work request.
  void reset();

  bool in_progress() const { return kind_ != Kind::kNone; }
  /// True if `p`, which does not start a message, may belong to this message.
  bool goes_on_with(const RequestPacket& p) const;
  /// True if the payload of this packet of a write fits the length announced in the RETH.
  bool fits_announcement(const RequestPacket& p) const;

  void begin_send();
  void begin_write(const wire::Headers& h);
  /// Ends the message, because it is complete or its rest will not be taken. A receive work request
  /// that was drawn for it stays.
  void end() { kind_ = Kind::kNone; }

  /// True if a receive work request was drawn and is not complete.
  bool has_receive() const { return drawn_; }
  /// Draws a receive work request, unless one is drawn. Returns false if there is none.
  bool draw(ReceiveSource& receives);
  /// True if the drawn receive work request has room for `bytes` more.
  bool has_room(std::size_t bytes) const;
  /// Explains that it has none.
  void explain_no_room(QueuePairEvents& events, std::size_t bytes) const {
    events.explain(RefusalCause::kReceiveTooShort, offset_ + bytes, capacity_);
  }
  /// Stores the payload of a send. REQUIRES: has_room().
  Verdict store(ReceiveSource& receives, std::span<const std::byte> payload);
  /// Stores the payload of a write.
  Verdict write(RemoteMemory& memory, std::span<const std::byte> payload);
  /// Completes the drawn receive work request. `last` is the last packet of the message.
  void complete_receive(ReceiveSource& receives, const RequestPacket& last);
  /// Completes the drawn receive work request, if any, with an error.
  void fail_receive(ReceiveSource& receives, Verdict verdict);

  bool is_send() const { return kind_ == Kind::kSend; }

  /// Returns what has come of the message. A packet that has begun and is not executed does not
  /// count: it comes again.
  PartOfMessage part() const;
  /// Goes on with a message of an earlier engine. Draws its receive again, from `receives`.
  void resume(const PartOfMessage& part, ReceiveSource& receives);

 private:
  using Kind = PartOfMessage::Kind;

  Kind kind_ = Kind::kNone;
  bool drawn_ = false;  ///< a receive work request of `capacity_` bytes is drawn
  std::uint64_t capacity_ = 0;
  std::uint64_t offset_ = 0;     ///< bytes received so far
  std::uint32_t remaining_ = 0;  ///< write: bytes to come
  Rkey rkey_;
  std::uint64_t addr_ = 0;
};

// Called once or more for every packet.

inline bool RequestPacket::fits_opcode(std::uint32_t mtu) const {
  const std::size_t size = payload.size();
  if (!mask.has_all(wire::kPayload)) return size == 0;
  if (!ends()) return size == mtu;
  return size <= mtu && (size > 0 || starts());
}

inline bool IncomingMessage::goes_on_with(const RequestPacket& p) const {
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

inline bool IncomingMessage::fits_announcement(const RequestPacket& p) const {
  const std::uint32_t left = p.starts() ? p.h.dma_length : remaining_;
  if (left > kMaxMessageBytes) return false;
  return p.ends() ? p.payload.size() == left : p.payload.size() < left;
}

inline bool IncomingMessage::has_room(std::size_t bytes) const {
  const std::uint64_t end = offset_ + bytes;
  return end <= capacity_ && end <= kMaxMessageBytes;
}

inline Verdict IncomingMessage::store(ReceiveSource& receives, std::span<const std::byte> payload) {
  if (!payload.empty()) {
    const Verdict stored = receives.store_receive(offset_, payload);
    if (stored != Verdict::kOk) return stored;
  }
  offset_ += payload.size();
  return Verdict::kOk;
}

inline Verdict IncomingMessage::write(RemoteMemory& memory, std::span<const std::byte> payload) {
  if (!payload.empty()) {
    const Verdict written = memory.write_remote(rkey_, addr_ + offset_, payload);
    if (written != Verdict::kOk) return written;
  }
  offset_ += payload.size();
  remaining_ -= static_cast<std::uint32_t>(payload.size());
  return Verdict::kOk;
}

}  // namespace softhca::transport
