// SPDX-License-Identifier: Apache-2.0

// What the next engine needs of a queue pair besides its attributes, as plain data in memory that
// outlives the engine (DurableState). It names no pointers.
//
// The engine may end at any store, for example by SIGKILL. So a position that belongs together is
// one word. A completion commits what it reports: before the engine pushes it, it stores where the
// completion goes and the word that is to follow. If the next engine finds the completion in its
// queue, it stores that word; if not, the message has not been completed and is done again.
//
// The receive of an own receive queue that was drawn for a message under way is drawn again: its
// element stays in the ring until its completion. One of a shared receive queue is recorded
// (DurableState::receive()), since its program may have written another into its place.
#pragma once

#include <cstdint>

#include "daemon/base/store_order.hpp"
#include "daemon/base/types.hpp"
#include "daemon/roce/transport/position.hpp"
#include "daemon/roce/transport/segment.hpp"

namespace softhca::engine {

/// The place of a completion in its queue.
struct PushPlace {
  std::uint32_t counter = 0;
  std::uint32_t index = 0;  ///< CompletionElement::index
};
/// True in a record while the completion may be there or not.
inline constexpr std::uint8_t kPushes = 1 << 0;

/// What a queue pair sends, and its state.
struct alignas(64) QpSends {
  std::uint64_t sent;          ///< sent_word()
  std::uint64_t next_sent;     ///< `sent` once the completion is there
  std::uint32_t sent_counter;  ///< PushPlace of that completion
  std::uint32_t sent_index;
  std::uint32_t posted_end;  ///< sequence number behind the last command that was announced
  std::uint32_t not_begun;   ///< sequence number of the first command that has not begun
  std::uint32_t unacked;     ///< SentPosition::unacked
  std::uint32_t sent_end;    ///< SentPosition::end
  /// UC, UD: sequence number behind the last command of which the last packet may have left.
  std::uint32_t attempted;
  std::uint32_t number;       ///< of the queue pair, or of the previous one in this slot; 0: none
  std::uint8_t in_use;        ///< 0: the slot is free
  std::uint8_t state;         ///< QpState
  std::uint8_t cause;         ///< QpFailure
  std::uint8_t events;        ///< kWantsDrained, kLastWqeRaised
  std::uint8_t is_failing;    ///< it enters the error state after the current call
  std::uint8_t sent_pushes;   ///< kPushes, kPushesFailed: that completion may be there
  std::uint8_t local_atomic;  ///< the first place of its replays has an atomic that it has sent
  std::uint8_t reserved_sent;
  std::uint64_t reserved_sent_end;

  static constexpr std::uint8_t kWantsDrained = 1 << 0;   ///< QpSendQueue::sqd_notify
  static constexpr std::uint8_t kLastWqeRaised = 1 << 1;  ///< QpError::last_wqe_raised
  static constexpr std::uint8_t kPushesFailed = 1 << 1;

  void set_event(std::uint8_t event, bool on) {
    events = static_cast<std::uint8_t>(on ? events | event : events & ~event);
  }

  // `done`: sequence number of the first command that is not complete

  /// A send queue holds fewer commands than the bits that are stored of the number.
  static std::uint64_t sent_word(std::uint32_t done, const transport::SentPosition& position) {
    return (done & kLowBits) | std::uint64_t{position.psn.value()} << 16 |
           std::uint64_t{position.sequence.value()} << 40;
  }
  /// Stores where the requests stand.
  void store_sent(std::uint32_t done, const transport::SentPosition& position) {
    sent = sent_word(done, position);
    unacked = position.unacked.value();
    sent_end = position.end.value();
  }
  /// To be called before the completion of a command is pushed, with the word behind it.
  void begin_sent(const PushPlace& place, std::uint64_t word, bool failed) {
    next_sent = word;
    sent_counter = place.counter;
    sent_index = place.index;
    keep_store_order();
    sent_pushes = failed ? kPushes | kPushesFailed : kPushes;
    keep_store_order();
  }
  /// Stores that a command is complete. Its completion, if it has one, was pushed.
  void end_sent(std::uint64_t word) {
    keep_store_order();
    sent = word;
    keep_store_order();
    sent_pushes = 0;
  }
  /// To be called by the next engine: commits a completion that is in its queue. One that is not is
  /// pushed when its command is done again.
  void settle_sent(bool is_there) {
    if (is_there) {
      if ((sent_pushes & kPushesFailed) != 0) is_failing = 1;
      end_sent(next_sent);
    }
    sent_pushes = 0;
  }
  std::uint32_t done() const {
    return posted_end - ((posted_end - static_cast<std::uint32_t>(sent)) & kLowBits);
  }
  transport::SentPosition sent_position() const;

 private:
  static constexpr std::uint32_t kLowBits = 0xffff;
};

/// What a queue pair receives.
struct alignas(64) QpReceives {
  std::uint64_t taken;          ///< taken_word()
  std::uint64_t next_taken;     ///< `taken` once the completion is there
  std::uint64_t message_addr;   ///< of the message under way: PartOfMessage::addr
  std::uint32_t taken_counter;  ///< PushPlace of that completion
  std::uint32_t taken_index;
  std::uint32_t message_first;   ///< of the message under way: PSN of its first packet
  std::uint32_t message_length;  ///< of a write, as announced
  std::uint32_t message_rkey;
  std::uint32_t message_xrc_srq;
  std::uint32_t received;       ///< own receive queue: counter of the next receive to complete
  std::uint32_t drawn_srq;      ///< number of the shared receive queue of the drawn receive
  std::uint32_t drawn_counter;  ///< counter at which it was drawn
  std::uint8_t drawn;           ///< a receive of a shared receive queue is drawn
  std::uint8_t replays_used;    ///< ReplayPlaces::used
  std::uint8_t taken_pushes;    ///< kPushes, and kOdd if `received` is odd behind the completion
  std::uint8_t reserved_taken;

  static constexpr std::uint8_t kOdd = 1 << 1;

  // `mtu`: path MTU in bytes

  static std::uint64_t taken_word(const transport::TakenPosition& position) {
    return position.expected.value() | std::uint64_t{position.sequence.value()} << 24 |
           std::uint64_t{static_cast<std::uint8_t>(position.message.kind)} << 48 |
           std::uint64_t{position.established} << 50 |
           (std::uint64_t{position.refused} & kRefusedBits) << 51;
  }
  /// Stores where the requests of the peer stand. What is stored of a message apart from the word
  /// does not change before its end.
  void store_taken(const transport::TakenPosition& position, std::uint32_t mtu) {
    if (position.message.kind != transport::PartOfMessage::Kind::kNone)
      store_message(position.message, position.expected - position.message.received / mtu);
    keep_store_order();
    taken = taken_word(position);
  }
  /// To be called before the completion of a receive is pushed, with the word behind it.
  void begin_taken(const PushPlace& place, std::uint64_t word, bool next_is_odd) {
    next_taken = word;
    taken_counter = place.counter;
    taken_index = place.index;
    keep_store_order();
    taken_pushes = next_is_odd ? kPushes | kOdd : kPushes;
    keep_store_order();
  }
  /// To be called when it was pushed. `next`: what follows for `received`.
  void end_taken(std::uint32_t next) {
    keep_store_order();
    taken = next_taken;
    received = next;
    drawn = 0;
    keep_store_order();
    taken_pushes = 0;
  }
  /// As QpSends::settle_sent().
  void settle_taken(bool is_there) {
    if (is_there) {
      const bool is_odd = (taken_pushes & kOdd) != 0;
      end_taken(received + (is_odd != (received % 2 != 0) ? 1 : 0));
    }
    taken_pushes = 0;
  }
  transport::TakenPosition taken_position(std::uint32_t mtu) const;

 private:
  void store_message(const transport::PartOfMessage& message, Psn first) {
    message_addr = message.addr;
    message_first = first.value();
    message_length = message.received + message.remaining;
    message_rkey = message.rkey.value;
    message_xrc_srq = message.xrc_srq;
  }

  // The syndromes that end a connection are 0x61 to 0x63.
  static constexpr std::uint8_t kRefusals = 0x60;
  static constexpr std::uint8_t kRefusedBits = 3;
};

struct QpDurable : QpSends, QpReceives {};
static_assert(sizeof(QpSends) == 64 && sizeof(QpReceives) == 64 && sizeof(QpDurable) == 128);

/// A record that was stored in part has the newer word. The figures apart from it are bounds.
inline transport::SentPosition QpSends::sent_position() const {
  const Psn psn(static_cast<std::uint32_t>(sent >> 16));
  const Psn oldest = Psn(unacked).is_before(psn) ? psn : Psn(unacked);
  const Psn end = Psn(sent_end).is_before(oldest) ? oldest : Psn(sent_end);
  return {psn, Psn(static_cast<std::uint32_t>(sent >> 40)), oldest, end};
}

inline transport::TakenPosition QpReceives::taken_position(std::uint32_t mtu) const {
  using Kind = transport::PartOfMessage::Kind;
  const auto refusal = static_cast<std::uint8_t>(taken >> 51 & kRefusedBits);
  transport::TakenPosition out{
      .expected = Psn(static_cast<std::uint32_t>(taken)),
      .sequence = Psn(static_cast<std::uint32_t>(taken >> 24)),
      .established = (taken >> 50 & 1) != 0,
      .refused = refusal == 0 ? refusal : static_cast<std::uint8_t>(kRefusals | refusal)};
  const std::int32_t packets = out.expected.distance_from(Psn(message_first));
  const std::uint64_t bytes = std::uint64_t{mtu} * static_cast<std::uint32_t>(packets);
  const auto kind = static_cast<Kind>(taken >> 48 & 3);
  // UC: a new message was begun and not stored, or the other way round. It is dropped.
  if (packets <= 0 || bytes > transport::kMaxMessageBytes ||
      (kind == Kind::kWrite && bytes >= message_length))
    return out;
  out.message = {
      .kind = kind,
      .received = static_cast<std::uint32_t>(bytes),
      .remaining = kind == Kind::kWrite ? message_length - static_cast<std::uint32_t>(bytes) : 0,
      .rkey = Rkey(message_rkey),
      .addr = message_addr,
      .xrc_srq = message_xrc_srq};
  return out;
}

}  // namespace softhca::engine
