// How long single commands wait for what. WaitCensus says how long all commands of a class wait for
// a cause, together; here some are followed, one in 61, from the doorbell or the kick to their end.
//
// A command that is followed is looked at where it goes on (fetched, started, complete) and in each
// census that sees its queue pair; the time since the last look is put down to what it waits for
// then. Of what no census saw, the last one tells what it was, by what others of its class waited
// for; where that is several things, in proportion to how many did.
//
// Of the same commands the time in each stage is told, by the clock and not by poll steps, from
// when the program posted it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "daemon/engine/clock.hpp"
#include "daemon/engine/session.hpp"

namespace softhca::engine {

class WaitSamples {
 public:
  /// Commands of a class at once. Others begin when one has ended.
  static constexpr std::size_t kMost = 4;

  WaitSamples(const StepClock& clock, std::size_t classes) : clock_(clock), followed_(classes) {}

  /// A doorbell says that the commands from `first` to before `end` are there.
  void posted(const QueuePair& qp, std::uint32_t first, std::uint32_t end) {
    const std::uint32_t left = first % abi::kSampledEvery;
    const std::uint32_t sampled = left == 0 ? first : first + (abi::kSampledEvery - left);
    // Where the numbers begin again at 0 there is none in between.
    if (abi::is_sampled(sampled) && ring_distance(end, sampled) > 0)
      begin(qp, sampled, CommandStage::kCollect);
  }
  /// The command is in a PCB. REQUIRES: it is sampled.
  void kicked(const QueuePair& qp, std::uint32_t sequence);
  /// It has its credits. REQUIRES: it is sampled.
  void started(const QueuePair& qp, std::uint32_t sequence);
  /// Its first packet has gone. May come again. REQUIRES: it is sampled.
  void transmitted(const QueuePair& qp, std::uint32_t sequence);
  /// It has ended well. REQUIRES: it is sampled.
  void completed(const QueuePair& qp, std::uint32_t sequence);
  /// Where a command is that has not started.
  enum class Stage : std::uint8_t { kSendQueue, kKickList, kCount };
  /// Commands of the class wait for that there.
  void seen(QosClassId qos_class, Stage stage, WaitCause cause) {
    followed_[qos_class.value].usual[static_cast<std::size_t>(stage)] = cause;
  }
  /// Of the commands of the class that have started, so many are sent, and so many wait for that.
  void seen_started(QosClassId qos_class, std::uint32_t sent, std::uint32_t unsent,
                    WaitCause cause) {
    followed_[qos_class.value].started = {sent, unsent, cause};
  }
  /// The commands from `first` on, so many, wait for that now.
  void seen(const QueuePair& qp, std::uint32_t first, std::uint64_t commands, WaitCause cause);
  /// Those of the queue pair are gone.
  void forget(const QueuePair& qp);

 private:
  struct Command {
    std::uint32_t slot = kNoIndex;  ///< of its queue pair; kNoIndex: none is followed
    std::uint32_t sequence = 0;
    WaitCause cause = WaitCause::kEngine;  ///< by the last census
    bool is_seen = false;                  ///< by a census, where it is now
    Time began{};
    Time looked{};
    std::array<std::uint64_t, static_cast<std::size_t>(WaitCause::kCount)> waited{};  ///< ns
    CommandStage stage = CommandStage::kPost;
    Time entered{};  ///< by the clock
    std::array<std::uint64_t, static_cast<std::size_t>(CommandStage::kCount)> in_stage{};  ///< ns
  };
  struct Started {
    std::uint32_t sent = 0;
    std::uint32_t unsent = 0;
    WaitCause cause = WaitCause::kEngine;  ///< what those that are not sent wait for
  };
  /// By the last census: where commands of the class are, and what they wait for.
  struct OfClass {
    std::array<Command, kMost> commands;
    std::array<WaitCause, static_cast<std::size_t>(Stage::kCount)> usual{};
    Started started;
  };

  void begin(const QueuePair& qp, std::uint32_t sequence, CommandStage stage);
  Command* find(const QueuePair& qp, std::uint32_t sequence);
  void look(Command& command, WaitCause cause);
  void enter(Command& command, CommandStage stage);
  /// It goes on from there.
  void pass(const QueuePair& qp, Command& command, Stage stage);
  static void record(const QueuePair& qp, Command& command);

  const StepClock& clock_;
  std::vector<OfClass> followed_;
};

}  // namespace softhca::engine
