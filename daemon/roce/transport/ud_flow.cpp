// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/transport/ud_flow.hpp"

#include <algorithm>

namespace softhca::transport {
namespace {

using std::chrono::milliseconds;

/// Shortest interval between probes, and so between changes of the rate.
constexpr Duration kLeastBetween = milliseconds(1);
constexpr Duration kMostBetween = milliseconds(100);
/// Factor applied to the rate after a loss (RFC 9438, 4.6). One half would starve this flow, which
/// learns of losses once in a millisecond, beside flows that learn of them at once.
constexpr double kRemains = 0.7;
/// Number of probes to a peer that has never answered, after which probes become rarer. A flow that
/// overflows a queue may lose its first probes there.
constexpr std::uint32_t kTries = 32;
constexpr Duration kMostSeldom = std::chrono::seconds(60);
/// Hosts with few processors can be silent for milliseconds.
constexpr Duration kFirstSilence = milliseconds(20);
constexpr Duration kMostSilence = std::chrono::seconds(1);
constexpr double kSilenceDivides = 8;
/// A peer that is silent for this long counts as one that does not answer.
constexpr Duration kGone = std::chrono::seconds(10);
/// How far a late sender may catch up: an engine serves other queue pairs in between.
constexpr Duration kCatchUp = std::chrono::microseconds(100);
/// Losses without a queue are judged over at least this many times `borne_losses` datagrams.
constexpr std::uint64_t kJudged = 4;
/// Ethernet, IPv4, UDP and transport headers, ICRC. The size of a datagram need not be exact, but
/// small ones must not be free.
constexpr std::uint32_t kDatagramHeaders = 66;

double seconds_of(Duration time) {
  return std::chrono::duration<double>(std::max(time, Duration(1))).count();
}
double rate_of(const DatagramAmount& amount, Duration time) {
  return static_cast<double>(amount.bytes) / seconds_of(time);
}

}  // namespace

Duration UdFlow::between_questions() const {
  constexpr std::uint32_t kClose = kAsked / 2;
  const Duration round_trip = round_trip_.smoothed();
  const std::uint32_t beyond = open() > kClose ? std::min(open() - kClose, kAsked / 2) : 0;
  return std::clamp(round_trip, kLeastBetween, kMostBetween) * (1u << beyond);
}

bool UdFlow::may_send(const UdFlowRules& rules, Time now) {
  if (now >= silence_due_) meet_silence(rules, now);
  if (!limited() || next_ <= now) return true;
  held_ = waited_ = true;
  return false;
}

void UdFlow::sent(std::uint32_t bytes, Time now) {
  busy_ += std::min(now - last_, waited_ ? kMostBetween : kLeastBetween);
  last_ = now;
  waited_ = false;
  ++sent_.packets;
  sent_.bytes += bytes + kDatagramHeaders;
  if (!limited()) return;
  const Duration step(static_cast<Duration::rep>((bytes + kDatagramHeaders) * 1e9 / rate_));
  next_ = std::max(next_, now - kCatchUp) + step * 3 / 4 + scatter(step, now);
}

/// Returns up to half of `time`, at random, so that neither probes nor datagrams synchronize with
/// those of others (Floyd and Jacobson, "On Traffic Phase Effects in Packet-Switched Gateways",
/// 1991).
Duration UdFlow::scatter(Duration time, Time now) {
  random_ ^= static_cast<std::uint64_t>(now.time_since_epoch().count());
  random_ = random_ * 6364136223846793005 + 1442695040888963407;  // Knuth
  return time * static_cast<Duration::rep>(random_ >> 54) / 2048;
}

void UdFlow::asked(Time now) {
  const Question& question = questions_[next_id_++ % kAsked] = {now, sent_, busy_};
  if (!answered_) {
    const bool is_new = tries_ < kTries;
    if (is_new)
      ++tries_;
    else
      rate_ = 0;
    pause_ = is_new ? kLeastBetween : std::min(2 * pause_, kMostSeldom);
    next_question_ = now + pause_ + scatter(pause_, now);
    return;
  }
  next_question_ = now + between_questions();
  if (silence_due_ != kNever) return;
  unanswered_ = question;
  silence_due_ = now + std::max(kFirstSilence, 2 * round_trip_.rto());
}

/// Reacts to silence like a timeout (RFC 5681, 3.1): lowers the rate to a fraction. Once the peer
/// answers again, the rate doubles up to half of what it was.
void UdFlow::meet_silence(const UdFlowRules& rules, Time now) {
  const Duration silent = now - unanswered_.at;
  if (silent > kGone) {
    silence_due_ = kNever;
    return give_up(kMostSeldom / 2);
  }
  const double before =
      limited() ? rate_ : rate_of(sent_ - unanswered_.sent, busy_ - unanswered_.busy);
  const double until = std::max(threshold_, before / 2);
  slow_down(before / kSilenceDivides, rules, now);
  threshold_ = until;
  silence_due_ = now + std::clamp(silent, kFirstSilence, kMostSilence);
}

bool UdFlow::answer(std::uint64_t id, const DatagramReceipt& receipt, const UdFlowRules& rules,
                    Time now) {
  const std::uint64_t number = id - secret_;
  if (number <= answered_id_ || number >= next_id_ || next_id_ - number > kAsked) return false;
  const Question question = questions_[number % kAsked];
  answered_id_ = number;
  const Psn psn(static_cast<std::uint32_t>(number));
  round_trip_.sent(psn, question.at);
  round_trip_.acknowledged(psn + 1, now);
  silence_due_ = kNever;
  if (!receipt.counts) {
    give_up(std::max(pause_, kMostBetween));
    return true;
  }
  if (!answered_ || receipt.since != told_.since) {
    begin(question, receipt);
    return true;
  }
  const DatagramAmount sent = question.sent - from_.sent;
  DatagramAmount got = receipt.received - told_.received;
  got.bytes += got.packets * kDatagramHeaders;
  const Question from = from_;
  from_ = question;
  told_ = receipt;
  const std::uint64_t lost = newly_lost();
  if (sent.packets == 0) return true;
  const bool is_of_before = from.at < slowed_;  // the losses of one round trip count once
  if (!is_of_before) judge(sent, got, lost, question.busy - from.busy, rules, now);
  held_ = false;
  return true;
}

/// Stops limiting the flow, since the peer does not report losses. The interval of the probes
/// becomes twice `pause`.
void UdFlow::give_up(Duration pause) {
  answered_ = false;
  tries_ = kTries;
  rate_ = threshold_ = 0;
  pause_ = pause;
}

/// Starts counting: no losses are known before this answer.
void UdFlow::begin(const Question& question, const DatagramReceipt& receipt) {
  answered_ = true;
  from_ = question;
  told_ = receipt;
  missing_ = {.sent = question.sent.packets, .told = receipt.received.packets};
  next_question_ = question.at + between_questions();
}

/// Returns how many more datagrams are missing than ever before. On paths with several ways a probe
/// overtakes datagrams that arrive later. A peer that reports false numbers harms only itself.
std::uint64_t UdFlow::newly_lost() {
  const std::uint64_t sent = from_.sent.packets - missing_.sent;
  const std::uint64_t got = told_.received.packets - missing_.told;
  const std::uint64_t missing = sent > got ? sent - got : 0;
  const std::uint64_t before = missing_.most;
  missing_.most = std::max(before, missing);
  return missing_.most - before;
}

void UdFlow::judge(const DatagramAmount& sent, const DatagramAmount& got, std::uint64_t lost,
                   Duration busy, const UdFlowRules& rules, Time now) {
  const double packets =
      static_cast<double>(sent.packets) * seconds_of(now - from_.at) / seconds_of(busy);
  const auto under_way = static_cast<std::uint32_t>(std::clamp(packets, 1.0, 1e6));
  missing_.tried += sent.packets;
  missing_.lost += lost;
  const bool queued = lost != 0 && round_trip_.is_queued(under_way, rules.flight);
  const bool is_much = missing_.tried >= kJudged * rules.flight.borne_losses &&
                       missing_.lost * rules.flight.borne_losses > missing_.tried;
  if (queued || is_much) {
    const double before = limited() ? std::min(rate_, rate_of(sent, busy)) : rate_of(sent, busy);
    return slow_down(std::min(before * kRemains, rate_of(got, busy)), rules, now);
  }
  if (missing_.tried >= kJudged * rules.flight.borne_losses) missing_.tried = missing_.lost = 0;
  if (limited() && held_) grow(got, busy, rules);
}

void UdFlow::grow(const DatagramAmount& got, Duration busy, const UdFlowRules& rules) {
  const double round_trips =
      seconds_of(busy) / seconds_of(std::max(round_trip_.smoothed(), kLeastBetween));
  if (rate_ < threshold_)
    rate_ = std::min(rate_ + rate_of(got, busy) * round_trips, threshold_);
  else
    rate_ += (rules.step + rate_ / (2 * rules.flight.flight_steps)) * round_trips;
  if (rate_ >= rules.most_rate) rate_ = threshold_ = 0;
}

void UdFlow::slow_down(double rate, const UdFlowRules& rules, Time now) {
  rate_ = threshold_ = std::clamp(rate, rules.least_rate, rules.most_rate);
  next_ = std::max(next_, now);
  slowed_ = now;
  missing_.tried = missing_.lost = 0;
}

bool UdFlow::notify(const UdFlowRules& rules, Time now) {
  if (!answered_) return false;
  if (from_.at < slowed_) return true;  // marked before the rate was lowered
  const double before = limited() ? rate_ : rate_of(sent_ - from_.sent, busy_ - from_.busy);
  slow_down(before * kRemains, rules, now);
  return true;
}

}  // namespace softhca::transport
