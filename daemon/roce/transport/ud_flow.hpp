// SPDX-License-Identifier: Apache-2.0

// Limits how fast datagrams are sent to one address. Datagrams are not acknowledged, so a probe
// asks the peer's adapter from time to time how many have arrived; the others were lost.
//
// As with the congestion window of reliable connections (pace.hpp), a loss while packets wait in a
// queue on the path lowers the rate; without a queue, one loss in `borne_losses` packets is
// tolerated. In each round trip the rate grows by a step, the same for all flows so that they
// converge, and by a part of itself, to keep up with connections. Without losses the rate is not
// limited.
//
// The clock is used only when a datagram is to be sent or the peer has answered: while no datagram
// is sent, no probe is sent either, and the rate does not change.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/base/time.hpp"
#include "daemon/roce/transport/pace.hpp"
#include "daemon/roce/transport/reliability.hpp"

namespace softhca::transport {

struct UdFlowRules {
  FlightParameters flight;
  double step = 1250e3;       ///< bytes per second, in each round trip
  double least_rate = 125e3;  ///< bytes per second
  double most_rate = 1250e6;  ///< at this rate the flow is no longer limited
};

/// Number of datagrams and of bytes.
struct DatagramAmount {
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;
  friend DatagramAmount operator-(const DatagramAmount& a, const DatagramAmount& b) {
    return {a.packets - b.packets, a.bytes - b.bytes};
  }
};

/// What the peer reports about the datagrams that arrived.
struct DatagramReceipt {
  bool counts = false;      ///< the peer counts them
  std::uint32_t since = 0;  ///< changes when the peer starts counting anew
  DatagramAmount received;  ///< with bytes of payload
};

class UdFlow {
 public:
  /// `secret` is the offset of the probe ids, so that others cannot forge answers.
  explicit UdFlow(std::uint64_t secret) : secret_(secret), rate_(kFirst), threshold_(kAny) {}
  UdFlow() = default;

  /// True if the peer has reported how many datagrams arrived, so that losses can be computed.
  bool is_answered() const { return answered_; }
  bool limited() const { return rate_ != 0; }
  double rate() const { return rate_; }  ///< bytes per second; 0: not limited

  /// True if a datagram may be sent now; otherwise it may be sent at next().
  bool may_send(const UdFlowRules& rules, Time now);
  Time next() const { return next_; }
  /// Records that a datagram was sent.
  void sent(std::uint32_t bytes, Time now);
  /// True if a probe should be sent before the next datagram.
  bool wants_to_ask(Time now) const { return now >= next_question_; }
  /// Returns the id of the next probe.
  std::uint64_t question() const { return secret_ + next_id_; }
  void asked(Time now);
  /// Handles the answer to a probe. Returns false if that probe was not sent or is already
  /// answered.
  bool answer(std::uint64_t id, const DatagramReceipt& receipt, const UdFlowRules& rules, Time now);
  /// Handles the report that a switch marked a datagram because of congestion. Returns false if the
  /// peer has not answered a probe: the report could then come from anyone.
  bool notify(const UdFlowRules& rules, Time now);

 private:
  /// Bytes per second until the peer has answered; then the rate doubles until a loss.
  static constexpr double kFirst = 16e6;
  static constexpr double kAny = 1e12;
  static constexpr std::uint32_t kAsked = 16;  ///< most probes that can still be answered

  struct Question {
    Time at{};
    DatagramAmount sent;  ///< before the probe, with headers
    Duration busy{};      ///< until the probe
  };

  /// Losses since the first answer.
  struct Missing {
    std::uint64_t sent = 0, told = 0;  ///< at the first answer
    std::uint64_t most = 0;            ///< most datagrams missing at any time
    // Recent counts, without a queue on the path.
    std::uint64_t tried = 0, lost = 0;
  };

  Duration scatter(Duration time, Time now);
  Duration between_questions() const;
  std::uint32_t open() const { return static_cast<std::uint32_t>(next_id_ - answered_id_); }
  void meet_silence(const UdFlowRules& rules, Time now);
  void give_up(Duration pause);
  void begin(const Question& question, const DatagramReceipt& receipt);
  std::uint64_t newly_lost();
  void judge(const DatagramAmount& sent, const DatagramAmount& got, std::uint64_t lost,
             Duration busy, const UdFlowRules& rules, Time now);
  void grow(const DatagramAmount& got, Duration busy, const UdFlowRules& rules);
  void slow_down(double rate, const UdFlowRules& rules, Time now);

  std::uint64_t secret_ = 0;
  std::uint64_t random_ = 1;
  std::uint64_t next_id_ = 1;      ///< without secret_
  std::uint64_t answered_id_ = 0;  ///< last probe that was answered
  std::array<Question, kAsked> questions_;
  Time next_question_{};
  std::uint32_t tries_ = 0;  ///< probes to a peer that has never answered, at most kTries
  Duration pause_{};         ///< before the next of those probes
  bool answered_ = false;
  RoundTrip round_trip_;

  DatagramAmount sent_;
  Duration busy_{};       ///< time in which datagrams were sent or waited
  bool waited_ = false;   ///< the next datagram had to wait
  Time last_{};           ///< when the last datagram was sent
  Question from_;         ///< last probe that was answered
  Question unanswered_;   ///< first probe since then, if silence_due_ is set
  DatagramReceipt told_;  ///< answer to from_
  Missing missing_;

  double rate_ = 0;
  double threshold_ = 0;       ///< up to this rate, it doubles in each round trip
  Time next_{};                ///< when the next datagram may be sent
  Time slowed_{};              ///< when the rate was last lowered
  Time silence_due_ = kNever;  ///< when silence lowers it again
  bool held_ = false;          ///< datagrams had to wait since the last answer
};

}  // namespace softhca::transport
