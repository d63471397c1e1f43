// SPDX-License-Identifier: Apache-2.0

// What the next engine needs of a queue pair besides its attributes, as plain data in memory that
// outlives the engine (DurableState). It names no pointers.
//
// The receive of an own receive queue that was drawn for a message under way is drawn again: its
// element stays in the ring until its completion. One of a shared receive queue is recorded
// (DurableState::receive()), since its program may have written another into its place.
#pragma once

#include <cstdint>

#include "daemon/base/types.hpp"
#include "daemon/roce/transport/position.hpp"

namespace softhca::engine {

struct alignas(64) QpDurable {
  // Line 0: what it sends.
  std::uint64_t sent;        ///< pack_sent()
  std::uint32_t posted_end;  ///< sequence number behind the last command that was announced
  std::uint32_t not_begun;   ///< sequence number of the first command that has not begun
  std::uint32_t unacked;     ///< SentPosition::unacked
  std::uint32_t sent_end;    ///< SentPosition::end
  std::uint32_t number;      ///< of the queue pair, or of the previous one in this slot; 0: none
  std::uint8_t in_use;       ///< 0: the slot is free
  std::uint8_t state;        ///< QpState
  std::uint8_t cause;        ///< QpFailure
  std::uint8_t events;       ///< kWantsDrained, kLastWqeRaised
  std::uint8_t is_failing;   ///< it enters the error state after the current call
  std::uint8_t reserved_sent[31];

  // Line 1: what it receives.
  std::uint64_t taken;         ///< pack_taken()
  std::uint64_t message_addr;  ///< PartOfMessage, as are the next four
  std::uint32_t message_received;
  std::uint32_t message_remaining;
  std::uint32_t message_rkey;
  std::uint32_t message_xrc_srq;
  std::uint32_t received;       ///< own receive queue: counter of the next receive to complete
  std::uint32_t drawn_srq;      ///< number of the shared receive queue of the drawn receive
  std::uint32_t drawn_counter;  ///< counter at which it was drawn
  std::uint8_t drawn;           ///< a receive of a shared receive queue is drawn
  std::uint8_t replays_used;    ///< ReplayPlaces::used
  std::uint8_t reserved_taken[14];

  static constexpr std::uint8_t kWantsDrained = 1 << 0;   ///< QpSendQueue::sqd_notify
  static constexpr std::uint8_t kLastWqeRaised = 1 << 1;  ///< QpError::last_wqe_raised
  void set_event(std::uint8_t event, bool on) {
    events = static_cast<std::uint8_t>(on ? events | event : events & ~event);
  }

  /// Stores where the requests stand. `done`: sequence number of the first command that is not
  /// complete.
  void store(std::uint32_t done, const transport::SentPosition& position) {
    sent = (done & kLowBits) | std::uint64_t{position.psn.value()} << 16 |
           std::uint64_t{position.sequence.value()} << 40;
    unacked = position.unacked.value();
    sent_end = position.end.value();
  }
  void store(const transport::TakenPosition& position) {
    message_addr = position.message.addr;
    message_received = position.message.received;
    message_remaining = position.message.remaining;
    message_rkey = position.message.rkey.value;
    message_xrc_srq = position.message.xrc_srq;
    taken = position.expected.value() | std::uint64_t{position.sequence.value()} << 24 |
            std::uint64_t{static_cast<std::uint8_t>(position.message.kind)} << 48 |
            std::uint64_t{position.established} << 50 |
            (std::uint64_t{position.refused} & kRefusedBits) << 51;
  }
  /// A send queue holds fewer commands than the bits that are stored of the number.
  std::uint32_t done() const {
    return posted_end - ((posted_end - static_cast<std::uint32_t>(sent)) & kLowBits);
  }
  transport::SentPosition sent_position() const {
    return {Psn(static_cast<std::uint32_t>(sent >> 16)),
            Psn(static_cast<std::uint32_t>(sent >> 40)), Psn(unacked), Psn(sent_end)};
  }
  transport::TakenPosition taken_position() const {
    const auto refusal = static_cast<std::uint8_t>(taken >> 51 & kRefusedBits);
    return {.expected = Psn(static_cast<std::uint32_t>(taken)),
            .sequence = Psn(static_cast<std::uint32_t>(taken >> 24)),
            .established = (taken >> 50 & 1) != 0,
            .refused = refusal == 0 ? refusal : static_cast<std::uint8_t>(kRefusals | refusal),
            .message = {.kind = static_cast<transport::PartOfMessage::Kind>(taken >> 48 & 3),
                        .received = message_received,
                        .remaining = message_remaining,
                        .rkey = Rkey(message_rkey),
                        .addr = message_addr,
                        .xrc_srq = message_xrc_srq}};
  }

 private:
  static constexpr std::uint32_t kLowBits = 0xffff;
  // The syndromes that end a connection are 0x61 to 0x63.
  static constexpr std::uint8_t kRefusals = 0x60;
  static constexpr std::uint8_t kRefusedBits = 3;
};
static_assert(sizeof(QpDurable) == 128);

}  // namespace softhca::engine
