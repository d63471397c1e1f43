// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/transport/local/local.hpp"

#include <algorithm>

namespace softhca::transport {
namespace {

constexpr unsigned kMessagesPerTurn = 32;
/// Largest piece of a message that repeated steps move, in bytes.
constexpr std::uint32_t kPiece = 64 << 10;

}  // namespace

void Local::configure(const RcAttributes& attributes, bool reliable) {
  attributes_ = attributes;
  checks_.configure(attributes);
  reliable_ = reliable;
}

void Local::reset(const WirePosition* former) {
  queue_.clear();
  bad_accesses_ = 0;
  checks_.reset();
  resumed_ = former != nullptr;
  if (resumed_) checks_.position() = *former;
  start_over();
}

void Local::start_over() {
  moving_ = sleeping_ = false;
  wait_ = Wait::kNone;
  rnr_retries_ = retries_ = 0;
  offset_ = piece_ = told_ = 0;
  waiting_since_ = wait_until_ = Time{};
}

/// The steps of a message are inlined here: calls between them would cost as much as they do.
[[gnu::flatten]] bool Local::transmit(LocalLink& link, const LocalUpcalls& up, Time now,
                                      std::uint32_t budget) {
  if (sleeping_ && queue_.empty() && !wants_request(link, up, now)) return false;
  sleeping_ = false;
  Turn turn{link, up, now, budget};
  for (unsigned i = 0; i < kMessagesPerTurn && turn.budget != 0; ++i) {
    if (queue_.empty() || !link.goes_on()) return false;
    const Step done = step(turn);
    sleeping_ = done == Step::kSleeping;
    if (done == Step::kPolling && wait_ != Wait::kNone) tell_waiting(up);
    if (done != Step::kGoOn) return done == Step::kPolling;
  }
  return true;
}

/// Advances the oldest request.
Local::Step Local::step(Turn& turn) {
  const Request& request = queue_.front();
  const LocalPeer* peer = turn.link.find_peer();
  if (peer == nullptr) return wait_for_peer(turn);
  if (!moving_) {
    const Step begun = begin(turn, *peer, request);
    if (!moving_) return begun;
  } else if (draws_receive(request.kind) && !turn.link.has_drawn()) {
    // The peer was reset during the message.
    start_over();
    return Step::kPolling;
  } else if (!turn.link.may_go_on()) {
    return Step::kPolling;
  }
  return move(turn, *peer, request);
}

/// Runs the checks of the first packet of a message. The message then moves, waits, or has ended.
Local::Step Local::begin(const Turn& turn, const LocalPeer& peer, const Request& request) {
  if (awaits_response(request.kind) && attributes_.max_rd_atomic == 0)
    return end(turn, Verdict::kLocalQpOperation);
  if (!reliable_) {
    if (!checks_.is_taken_unreliably(peer, request)) return end(turn, Verdict::kOk);
  } else if (checks_.position().send != peer.expected) [[unlikely]] {
    return meet_other_psn(turn, peer, request);
  }
  peer.events.raise_event(AsyncEvent::kCommunicationEstablished);
  const Verdict verdict = checks_.check(peer, request, queue_);
  if (verdict == Verdict::kBadResponse) return end(turn, verdict);
  if (verdict != Verdict::kOk) return refuse(turn, peer, verdict, verdict);
  if (!turn.link.is_within_rate(request)) return wait_for_rate(turn, peer, request);
  return draws_receive(request.kind) ? draw(turn, peer, request) : set_moving(turn, request);
}

/// RC: handles a message with another first PSN than the peer expects. A message of
/// duplicates succeeds without effect; one that only begins with duplicates continues none.
Local::Step Local::meet_other_psn(const Turn& turn, const LocalPeer& peer, const Request& request) {
  if (!waits_for_peer() || turn.now >= wait_until_)
    peer.events.count(checks_.position().send.is_after(peer.expected) ? Count::kOutOfSequence
                                                                      : Count::kDuplicateRequests);
  if (resumed_ && checks_.behind(request) == peer.expected) return end(turn, Verdict::kOk);
  if (misses(peer)) return wait_for_peer(turn);
  if (checks_.repeats(peer, request)) return end(turn, Verdict::kOk);
  peer.events.explain(RefusalCause::kPacketOrder);
  return refuse(turn, peer, Verdict::kRemoteInvalidRequest, Verdict::kRemoteInvalidRequest);
}

Local::Step Local::set_moving(const Turn& turn, const Request& request) {
  if (wait_ != Wait::kNone) start_over();
  moving_ = true;
  turn.link.begins(request);
  turn.up.commands.request_begun(request.pcb);
  return Step::kGoOn;
}

Local::Step Local::draw(const Turn& turn, const LocalPeer& peer, const Request& request) {
  // A receive is used for the next message if its own was aborted (sender reset, or receive too
  // short).
  if (!turn.link.has_drawn()) {
    const LocalLink::Draw drawn = turn.link.draw();
    if (drawn == LocalLink::Draw::kUnusable) return wait_for_peer(turn);
    if (drawn == LocalLink::Draw::kEmpty) {
      const Verdict refusal = peer.receives.refusal();
      if (refusal == Verdict::kReceiverNotReady) return wait_for_receive(turn, peer);
      peer.events.enter_error(std::nullopt);
      return end(turn, refusal);
    }
  }
  if (is_send(request.kind) && request.length > turn.link.drawn_bytes()) {
    peer.events.explain(RefusalCause::kReceiveTooShort, request.length, turn.link.drawn_bytes());
    if (!reliable_) {
      peer.events.count(Count::kBadLength);
      return end(turn, Verdict::kOk);
    }
    return refuse(turn, peer, Verdict::kRemoteInvalidRequest, Verdict::kLocalLength);
  }
  return set_moving(turn, request);
}

Local::Step Local::move(Turn& turn, const LocalPeer& peer, const Request& request) {
  // An atomic runs in one piece, otherwise it would run twice.
  const bool whole = is_indivisible(request.kind);
  const std::uint32_t left = request.length - offset_;
  const std::uint32_t bytes =
      whole         ? left
      : piece_ != 0 ? piece_
                    : static_cast<std::uint32_t>(std::min<std::uint64_t>(turn.budget, left));
  if (request.length != 0) {
    const LocalLink::Moved moved =
        whole ? turn.link.run_atomic(request) : turn.link.move(request, offset_, bytes);
    const Verdict verdict = moved.verdict();
    if (verdict == Verdict::kBusy) {
      if (!whole) piece_ = std::min(bytes, kPiece);
      return Step::kPolling;
    }
    if (verdict != Verdict::kOk && !moved.peer_at_fault()) return end(turn, verdict);
    // The cause is the peer's own receive: its consumer is notified there (IBA 9.9.3).
    if (verdict != Verdict::kOk && is_send(request.kind))
      return refuse(turn, peer, Verdict::kRemoteOperation, Verdict::kLocalProtection);
    if (verdict != Verdict::kOk) return refuse(turn, peer, verdict, verdict);
  }
  turn.budget -= std::min(turn.budget, turn.link.charge(bytes, offset_ == 0));
  offset_ += bytes;
  piece_ = 0;
  return offset_ == request.length ? finish(turn, peer, request) : Step::kGoOn;
}

/// Ends a message that has moved. The next engine may have to go on between any two stores. If the
/// peer alone has taken the message, meet_other_psn() finds that.
Local::Step Local::finish(const Turn& turn, const LocalPeer& peer, const Request& request) {
  const bool invalidates = request.kind == RequestKind::kSendInvalidate;
  if (invalidates && peer.memory.invalidate_key(request.rkey) != Verdict::kOk)
    return refuse(turn, peer, Verdict::kRemoteAccess, Verdict::kRemoteAccess);
  peer.expected = checks_.behind(request);
  if (draws_receive(request.kind)) {
    ReceiveCompletion completion;
    completion.byte_len = request.length;
    completion.from_write = request.kind == RequestKind::kWriteImm;
    completion.has_imm =
        request.kind == RequestKind::kWriteImm || request.kind == RequestKind::kSendImm;
    completion.solicited = request.solicited;
    completion.invalidated = invalidates;
    completion.imm = invalidates ? request.rkey.value : request.imm;
    peer.receives.complete_receive(completion);
  }
  if (const auto counted = request_count(request.kind)) peer.events.count(*counted);
  turn.link.arrived(request);
  peer.events.executed();
  return end(turn, Verdict::kOk);
}

/// Acts as if the peer answered with a fatal NAK: both ends go to the error state, and a receive
/// that was drawn completes with `of_receive`. UC: the message is lost, and a sender that tries
/// many keys ends the peer's queue pair.
Local::Step Local::refuse(const Turn& turn, const LocalPeer& peer, Verdict verdict,
                          Verdict of_receive) {
  const bool access = verdict == Verdict::kRemoteAccess;
  std::optional<AsyncEvent> event;
  if (verdict != Verdict::kRemoteOperation) {
    if (!reliable_) {
      if (access) peer.events.count(Count::kBadAccess);
      if (!access || ++bad_accesses_ < kMostBadAccesses) return end(turn, Verdict::kOk);
    }
    event = access ? AsyncEvent::kAccessError : AsyncEvent::kInvalidRequest;
  }
  if (turn.link.has_drawn() && (reliable_ || verdict == Verdict::kRemoteOperation))
    peer.receives.complete_receive({.verdict = of_receive});
  peer.events.enter_error(event);
  return end(turn, reliable_ ? verdict : Verdict::kOk);
}

Local::Step Local::end(const Turn& turn, Verdict verdict) {
  start_over();
  resumed_ = false;
  if (verdict == Verdict::kOk) checks_.succeeded(queue_.front());
  turn.up.commands.complete_request(queue_.pop(), verdict);
  return Step::kGoOn;
}

void Local::flush(const LocalUpcalls& up) {
  start_over();
  while (!queue_.empty()) up.commands.complete_request(queue_.pop(), Verdict::kFlushed);
}

}  // namespace softhca::transport
