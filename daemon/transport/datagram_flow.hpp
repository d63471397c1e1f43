// How fast datagrams may go to one address. A datagram is not acknowledged, so the peer's adapter
// is asked now and then how many have come; what is missing was lost.
//
// As with the flight of reliable connections (pace.hpp), a loss while packets wait in a queue on
// the way lowers the rate, and one without is borne up to one packet in `borne_losses`. In each
// round trip the rate grows by a step, the same for all so that they come to the same rate, and by
// a part of itself, to keep up with connections. Without losses there is none.
//
// Time is looked at only when a datagram is to go or the peer has answered: nothing is asked, and
// nothing changes, while none goes.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/base/reliability.hpp"
#include "daemon/base/time.hpp"
#include "daemon/transport/pace.hpp"

namespace softhca::transport {

struct DatagramRules {
  FlightParameters flight;
  double step = 1250e3;       ///< bytes per second, in each round trip
  double least_rate = 125e3;  ///< bytes per second
  double most_rate = 1250e6;  ///< from there on the flow is not held back any more
};

/// Datagrams, and their bytes.
struct DatagramAmount {
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;
  friend DatagramAmount operator-(const DatagramAmount& a, const DatagramAmount& b) {
    return {a.packets - b.packets, a.bytes - b.bytes};
  }
};

/// What a peer has told of the datagrams that came.
struct DatagramReceipt {
  bool counts = false;      ///< it does count them
  std::uint32_t since = 0;  ///< changes when it has begun anew
  DatagramAmount received;  ///< bytes of payload
};

class DatagramFlow {
 public:
  /// `secret`: questions are numbered from there on, so that others cannot answer them.
  explicit DatagramFlow(std::uint64_t secret) : secret_(secret), rate_(kFirst), threshold_(kAny) {}
  DatagramFlow() = default;

  /// The peer has told how many datagrams came; what it has not can be known.
  bool is_answered() const { return answered_; }
  bool limited() const { return rate_ != 0; }
  double rate() const { return rate_; }  ///< bytes per second; 0: not limited

  /// May a datagram go? If not, it may at next().
  bool may_send(const DatagramRules& rules, Time now);
  Time next() const { return next_; }
  /// One has gone.
  void sent(std::uint32_t bytes, Time now);
  /// Is it time to ask, before the next datagram?
  bool wants_to_ask(Time now) const { return now >= next_question_; }
  /// The number of the question.
  std::uint64_t question() const { return secret_ + next_id_; }
  void asked(Time now);
  /// The answer to a question has come. False: this one was not asked, or is answered.
  bool answer(std::uint64_t id, const DatagramReceipt& receipt, const DatagramRules& rules,
              Time now);
  /// A switch on the way has marked a datagram as having met congestion. False: it is not known
  /// who says so.
  bool notify(const DatagramRules& rules, Time now);

 private:
  /// Bytes per second until the peer has answered; then the rate doubles until something is lost.
  static constexpr double kFirst = 16e6;
  static constexpr double kAny = 1e12;
  static constexpr std::uint32_t kAsked = 16;  ///< questions that may be answered yet, at most

  struct Question {
    Time at{};
    DatagramAmount sent;  ///< before it, with headers
    Duration busy{};      ///< until then
  };

  /// Of all datagrams since the first answer.
  struct Missing {
    std::uint64_t sent = 0, told = 0;  ///< before that
    std::uint64_t most = 0;            ///< that ever were
    // Of late, while no queue was seen.
    std::uint64_t tried = 0, lost = 0;
  };

  Duration scatter(Duration time, Time now);
  Duration between_questions() const;
  std::uint32_t open() const { return static_cast<std::uint32_t>(next_id_ - answered_id_); }
  void meet_silence(const DatagramRules& rules, Time now);
  void give_up(Duration pause);
  void begin(const Question& question, const DatagramReceipt& receipt);
  std::uint64_t newly_lost();
  void judge(const DatagramAmount& sent, const DatagramAmount& got, std::uint64_t lost,
             Duration busy, const DatagramRules& rules, Time now);
  void grow(const DatagramAmount& got, Duration busy, const DatagramRules& rules);
  void slow_down(double rate, const DatagramRules& rules, Time now);

  std::uint64_t secret_ = 0;
  std::uint64_t random_ = 1;
  std::uint64_t next_id_ = 1;      ///< without secret_
  std::uint64_t answered_id_ = 0;  ///< the last question that was answered
  std::array<Question, kAsked> questions_;
  Time next_question_{};
  std::uint32_t tries_ = 0;  ///< questions to a peer that has never answered, up to kTries
  Duration pause_{};         ///< before the next one then
  bool answered_ = false;
  RoundTrip round_trip_;

  DatagramAmount sent_;
  Duration busy_{};       ///< the time in which datagrams went or waited
  bool waited_ = false;   ///< the next one had to
  Time last_{};           ///< when a datagram went last
  Question from_;         ///< the last question that was answered
  Question unanswered_;   ///< the first since then, if silence_due_ says so
  DatagramReceipt told_;  ///< its answer
  Missing missing_;

  double rate_ = 0;
  double threshold_ = 0;       ///< up to which it doubles in each round trip
  Time next_{};                ///< when the next datagram may go
  Time slowed_{};              ///< when the rate was last lowered
  Time silence_due_ = kNever;  ///< when silence lowers it again
  bool held_ = false;          ///< datagrams had to wait since the last answer
};

}  // namespace softhca::transport
