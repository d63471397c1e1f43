// Local delivery: a peer that is not there, or has no receive.
#include "daemon/transport/codes.hpp"
#include "daemon/transport/local/local.hpp"

namespace softhca::transport {
namespace {

// A receive that is missing often comes within microseconds: for so long every poll step looks,
// then only the timer of the RNR wait does.
constexpr Duration kPollForReceive = std::chrono::microseconds(50);
// How often to look for a peer when the timeout attribute says "never".
constexpr Duration kPeerInterval = std::chrono::milliseconds(10);

}  // namespace

/// As if packets went unanswered: UC does not notice, RC times out.
Local::Step Local::wait_for_peer(const Turn& turn) {
  if (!reliable_) return end(turn, Verdict::kOk);
  if (waiting_ && turn.now < wait_until_) return Step::kSleeping;
  const Duration timeout = ack_timeout(attributes_.timeout);
  if (waiting_ && timeout != Duration::zero()) {
    turn.up.events.count(Count::kAckTimeouts);
    if (retries_ >= attributes_.retry_count) return end(turn, Verdict::kRetryExceeded);
  }
  const auto retries = static_cast<std::uint8_t>(retries_ + (waiting_ ? 1 : 0));
  start_over();
  retries_ = retries;
  pause(turn.now, timeout != Duration::zero() ? timeout : kPeerInterval);
  return Step::kSleeping;
}

/// Receiver not ready: UC drops the message, RC waits as long as the peer's attribute says and
/// tries as often as its own does (IBA 9.7.5.2.8). A receive posted meanwhile is taken at once.
Local::Step Local::wait_for_receive(const Turn& turn, const LocalPeer& peer) {
  if (!reliable_) {
    turn.up.events.count(Count::kReceiveDropped);
    return end(turn, Verdict::kOk);
  }
  if (waiting_ && turn.now < wait_until_)
    return turn.now - waiting_since_ < kPollForReceive ? Step::kPolling : Step::kSleeping;
  turn.up.events.count(Count::kRnrNakReceived);
  if (attributes_.rnr_retry != kRnrRetryForEver && rnr_retries_ >= attributes_.rnr_retry)
    return end(turn, Verdict::kRnrRetryExceeded);
  ++rnr_retries_;
  pause(turn.now, rnr_delay(peer.min_rnr_timer));
  return Step::kPolling;
}

void Local::pause(Time now, Duration wait) {
  if (!waiting_) waiting_since_ = now;
  waiting_ = true;
  wait_until_ = now + wait;
}

/// After withdraw(): a missing receive shows without a request, and makes it wait again; any other
/// outcome needs one.
bool Local::wants_request(LocalLink& link, const LocalUpcalls& up, Time now) {
  if (now < wait_until_) return false;
  const LocalPeer* peer = link.find_peer();
  const bool for_receive = rnr_retries_ != 0;  // else for its peer
  if (peer == nullptr || !for_receive || attributes_.rnr_retry != kRnrRetryForEver ||
      link.has_receive())
    return true;
  up.events.count(Count::kRnrNakReceived);
  pause(now, rnr_delay(peer->min_rnr_timer));
  return false;
}

}  // namespace softhca::transport
