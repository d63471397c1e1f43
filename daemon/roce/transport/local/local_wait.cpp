// SPDX-License-Identifier: Apache-2.0

// Local delivery: waits for a peer that is absent, has no receive, or is at its rate limit, and for
// memory that is slow to reach.
#include "daemon/roce/transport/codes.hpp"
#include "daemon/roce/transport/local/local.hpp"

namespace softhca::transport {
namespace {

// A missing receive often comes within microseconds. Every poll step checks for it during this
// time; afterwards only the timer of the RNR wait does.
constexpr Duration kPollForReceive = std::chrono::microseconds(50);
// How often to check for a peer if the timeout attribute is "never".
constexpr Duration kPeerInterval = std::chrono::milliseconds(10);

}  // namespace

/// Handles an absent peer, as if packets were unanswered: UC does not notice, RC times out.
Local::Step Local::wait_for_peer(const Turn& turn) {
  if (!reliable_) return end(turn, Verdict::kOk);
  if (waits_for_peer() && turn.now < wait_until_) return Step::kSleeping;
  const Duration timeout = ack_timeout(attributes_.timeout);
  if (waits_for_peer() && timeout != Duration::zero()) {
    const bool exhausted = retries_ >= attributes_.retry_count;
    turn.up.events.count_at(Count::kAckTimeouts, std::nullopt,
                            exhausted ? 0u : attributes_.retry_count - retries_);
    if (exhausted) return end(turn, Verdict::kRetryExceeded);
  }
  const auto retries = static_cast<std::uint8_t>(retries_ + (waits_for_peer() ? 1 : 0));
  start_over();
  retries_ = retries;
  pause(turn.now, Wait::kPeer, timeout != Duration::zero() ? timeout : kPeerInterval);
  return Step::kSleeping;
}

/// Handles a missing receive: UC drops the message. RC waits as long as the peer's attribute says,
/// and tries as often as its own says (IBA 9.7.5.2.8). A receive posted meanwhile is used at once.
Local::Step Local::wait_for_receive(const Turn& turn, const LocalPeer& peer) {
  if (!reliable_) {
    turn.up.events.count(Count::kReceiveDropped);
    return end(turn, Verdict::kOk);
  }
  if (!waits_for_peer() || turn.now >= wait_until_) {
    const Duration wait = rnr_delay(peer.min_rnr_timer);
    turn.up.events.count_at(Count::kRnrNakReceived, std::nullopt, in_microseconds(wait));
    if (attributes_.rnr_retry != kRnrRetryForEver && rnr_retries_ >= attributes_.rnr_retry)
      return end(turn, Verdict::kRnrRetryExceeded);
    ++rnr_retries_;
    pause(turn.now, Wait::kReceive, wait);
  }
  // It must sleep eventually, even if each of its turns comes after the RNR wait: until then it
  // holds PCBs.
  return turn.now - waiting_since_ < kPollForReceive ? Step::kPolling : Step::kSleeping;
}

/// Handles the rate limit of the peer, or slow memory of either end: UC drops the message, RC waits
/// until it is called.
Local::Step Local::wait_for_rate(const Turn& turn, const LocalPeer& peer, const Request& request) {
  if (!reliable_) {
    peer.events.count(Count::kRateDropped);
    return end(turn, Verdict::kOk);
  }
  turn.link.wait_for_rate(request);
  wait_ = Wait::kRate;
  wait_until_ = kNever;
  return Step::kSleeping;
}

void Local::pause(Time now, Wait what, Duration wait) {
  if (wait_ != what) waiting_since_ = now;
  wait_ = what;
  wait_until_ = now + wait;
}

SendObstacle Local::obstacle() const {
  if (moving_) return SendObstacle::kNone;
  switch (wait_) {
    case Wait::kNone:
      break;
    case Wait::kPeer:
      return SendObstacle::kPeer;
    case Wait::kReceive:
      return SendObstacle::kReceiver;
    case Wait::kRate:
      return SendObstacle::kPeerRate;
  }
  return SendObstacle::kNone;
}

/// Reports that the oldest request waits for the peer, and the others for that one: they need no
/// resources of the daemon meanwhile.
void Local::tell_waiting(const LocalUpcalls& up) {
  if (told_ == queue_.size()) return;
  told_ = queue_.size();
  for (PcbId pcb = queue_.oldest(); pcb != SendQueue::kEnd; pcb = queue_.next(pcb))
    up.commands.request_sent(pcb);
}

/// True if a request is needed after withdraw(). A missing receive is found without a request and
/// starts another wait, and so is the wait for the peer's rates. All other outcomes need a request.
bool Local::wants_request(LocalLink& link, const LocalUpcalls& up, Time now) {
  if (wait_ == Wait::kRate) return !link.waits_for_rate();
  if (now < wait_until_) return false;
  const LocalPeer* peer = link.find_peer();
  if (peer == nullptr || wait_ != Wait::kReceive || attributes_.rnr_retry != kRnrRetryForEver ||
      link.has_receive())
    return true;
  const Duration wait = rnr_delay(peer->min_rnr_timer);
  up.events.count_at(Count::kRnrNakReceived, std::nullopt, in_microseconds(wait));
  pause(now, Wait::kReceive, wait);
  return false;
}

}  // namespace softhca::transport
