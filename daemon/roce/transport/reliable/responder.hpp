// SPDX-License-Identifier: Apache-2.0

// The responder of a reliable connection, of RC or XRC: executes request packets in order and
// answers them (InfiniBand specification, volume 1, 9.7 and 9.9).
//
// receive() runs a chain of named checks on one packet. Each check ends the chain by recording what
// is owed to the peer: an acknowledgement, a NAK, a response. transmit() sends what is owed:
// responses to reads and atomics first, in PSN order, then one NAK or one coalesced ACK. So no
// acknowledgement overtakes a response.
//
// Packets behind a gap may be buffered, and go through the same chain in their turn.
//
// The files: responder.cpp (life, bookkeeping), responder_check.cpp (the chain),
// responder_execute.cpp (send, write, read, atomic), responder_duplicate.cpp (replay),
// responder_transmit.cpp (responses, NAK, ACK).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/roce/transport/incoming_message.hpp"
#include "daemon/roce/transport/reliable/kept_packets.hpp"
#include "daemon/roce/transport/reliable/replays.hpp"
#include "daemon/roce/transport/upcalls.hpp"
#include "daemon/roce/wire/headers.hpp"
#include "daemon/roce/wire/opcode.hpp"

namespace softhca::transport {

/// The memory of an engine that holds the state of a responder. It outlives the responder.
struct ResponderStores {
  ResponderStores(const ReplayPlaces& reads) : replays(reads) {}
  ResponderStores(const ReplayPlaces& reads, KeptStore& early, KeptAccount& for_whom)
      : replays(reads), kept(&early), account(&for_whom) {}
  ReplayPlaces replays;
  KeptStore* kept = nullptr;  ///< out-of-order buffer; null: such packets are dropped
  KeptAccount* account = nullptr;
};

class Responder {
 public:
  /// Sets the attributes, and how many reads and atomics are replayable (max_dest_rd_atomic).
  void configure(const RcAttributes& attributes, const ResponderStores& stores);
  /// Returns the number of buffered packets.
  std::uint32_t kept() const { return kept_.size(); }
  /// Returns the bytes that the places of those take once they are used.
  static std::size_t memory_for(std::uint8_t max_dest_rd_atomic);
  /// Gives those places back. Call configure() and reset() before the next packet.
  void release();
  /// Drops everything without completing it. The next new packet must have PSN `rq_psn`.
  void reset(Psn rq_psn);
  /// Like reset(), after `sequence` messages.
  void resume(Psn expected, Psn sequence);
  /// Like resume(), in the middle of what an earlier engine has done. `places`: with the replays
  /// of that engine. Acknowledges, since the last acknowledgement may not have been sent.
  void resume(const TakenPosition& position, const ReplayPlaces& places,
              const ResponderUpcalls& up);
  /// Returns where the requests of the peer stand.
  TakenPosition position() const;

  /// Handles a request packet; other packets are counted and dropped. Sends nothing; call
  /// transmit(). If its memory is busy (Verdict::kBusy), the same packet must come again before any
  /// other.
  void receive(const ResponderUpcalls& up, const wire::Headers& h,
               std::span<const std::byte> payload, Time now);
  /// Sends what is owed, at most `packet_budget` read responses and one ACK or NAK. Called at the
  /// end of a poll step if pending(). Returns true if more could be sent right away. After it has
  /// sent a fatal NAK, it calls enter_error(): the queue pair must stay alive until then.
  bool transmit(const ResponderUpcalls& up, unsigned packet_budget);
  /// True if something is owed to the peer.
  bool pending() const {
    return replays_.any_due() || ack_due_ || nak_ != 0 ||
           (!kept_.empty() && refusal_ == Refusal::kNone);
  }
  /// Returns the acknowledgement of everything executed, to be repeated when the queue pair is
  /// gone. Returns nothing before the first packet and after a failure.
  std::optional<wire::Headers> last_acknowledgement(const ResponderUpcalls& up) const;
  /// Completes an unfinished receive with kFlushed, since the queue pair is in the error state.
  /// Then the responder neither receives nor sends until reset().
  void flush(const ResponderUpcalls& up);

 private:
  enum class Refusal : std::uint8_t { kNone, kSequence, kNotReady, kOverRate, kFatal };

  // responder_check.cpp
  bool check_psn(const ResponderUpcalls& up, const RequestPacket& p);
  Verdict choose_receive_queue(const ResponderUpcalls& up, const RequestPacket& p);
  Verdict check_length(const ResponderUpcalls& up, const RequestPacket& p) const;
  bool check_rate(const ResponderUpcalls& up, const RequestPacket& p);
  bool take(const ResponderUpcalls& up, const RequestPacket& p);
  bool take_kept(const ResponderUpcalls& up, unsigned packet_budget);
  void accept(const ResponderUpcalls& up, const RequestPacket& p);

  // responder_execute.cpp
  Verdict execute(const ResponderUpcalls& up, const RequestPacket& p);
  Verdict execute_send(const ResponderUpcalls& up, const RequestPacket& p);
  Verdict execute_write(const ResponderUpcalls& up, const RequestPacket& p);
  Verdict execute_read(const ResponderUpcalls& up, const RequestPacket& p);
  Verdict execute_atomic(const ResponderUpcalls& up, const RequestPacket& p);
  Verdict execute_atomic_write(const ResponderUpcalls& up, const RequestPacket& p);

  // responder_duplicate.cpp
  void receive_duplicate(const ResponderUpcalls& up, const RequestPacket& p);
  void replay_read(const wire::Headers& h);
  void replay_atomic(const RequestPacket& p);

  // responder_transmit.cpp
  SendResult send_response(const ResponderUpcalls& up, Replay& r);
  void refuse_response(const ResponderUpcalls& up);
  bool send_nak(const ResponderUpcalls& up);
  bool send_ack(const ResponderUpcalls& up, Psn of);
  wire::Headers make_acknowledgement(const ResponderUpcalls& up, Psn of) const;
  wire::Headers make_headers(wire::Opcode opcode, Psn psn) const;
  void set_aeth(const ResponderUpcalls& up, wire::Headers& h) const;

  // responder.cpp
  void refuse(const ResponderUpcalls& up, Verdict verdict, Verdict of_receive);
  void refuse_for_now(Refusal why, std::uint8_t rnr_timer);
  void miss(Psn shown_by);
  void owe_nothing();

  RcAttributes attributes_;
  std::uint32_t mtu_shift_ = 10;

  Psn expected_;
  Psn sequence_;  ///< MSN: messages completed, 24 bits

  std::uint32_t xrc_srq_ = 0;  ///< XRC: destination queue of the message
  IncomingMessage message_;
  KeptPackets kept_;

  bool failed_ = false;               ///< neither receives nor sends until reset()
  bool established_ = false;          ///< kCommunicationEstablished was raised
  bool resumes_ = false;              ///< the packet at `expected_` has begun and comes again
  Refusal refusal_ = Refusal::kNone;  ///< why packets beyond the expected one are dropped
  Psn gap_seen_;                      ///< kSequence: the packet that showed the gap

  // What is owed.
  bool ack_due_ = false;
  std::uint8_t nak_ = 0;  ///< syndrome, 0: none
  Psn nak_psn_;
  Replays replays_;
  bool asked_again_ = false;  ///< a waiting response was requested again; no answer since
};

}  // namespace softhca::transport
