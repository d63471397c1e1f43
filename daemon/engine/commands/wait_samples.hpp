// SPDX-License-Identifier: Apache-2.0

// How long single commands wait, by cause. WaitCensus tells how long all commands of a class
// together wait for a cause. This class follows single commands, one in 61, from the doorbell or
// the kick to their end.
//
// A sampled command is checked when it moves on (fetched, started, complete) and in each census
// that sees its queue pair. The time since the last check is attributed to its cause at that
// moment. If no census saw the command, the last census of its class gives the cause. If others of
// the class waited for several causes, the time is divided in proportion to their numbers.
//
// For the same commands the time in each stage is recorded, from the posting on. It is measured by
// the clock, not by poll steps.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "daemon/engine/records/session.hpp"
#include "daemon/engine/records/step_clock.hpp"

namespace softhca::engine {

class WaitSamples {
 public:
  /// Most commands of a class that are followed at once.
  static constexpr std::size_t kMost = 4;

  WaitSamples(const StepClock& clock, std::size_t classes) : clock_(clock), followed_(classes) {}

  /// Records a doorbell for the commands from `first` to before `end`.
  void posted(const QueuePair& qp, std::uint32_t first, std::uint32_t end) {
    const std::uint32_t left = first % abi::kSampledEvery;
    const std::uint32_t sampled = left == 0 ? first : first + (abi::kSampledEvery - left);
    // Where the numbers wrap to 0, the range has no sampled one.
    if (abi::is_sampled(sampled) && ring_distance(end, sampled) > 0)
      begin(qp, sampled, CommandStage::kCollect);
  }
  /// Records that the command is in a PCB. REQUIRES: it is sampled.
  void kicked(const QueuePair& qp, std::uint32_t sequence);
  /// Records that the command has its credits. REQUIRES: it is sampled.
  void started(const QueuePair& qp, std::uint32_t sequence);
  /// Records that its first packet was sent. May be called again. REQUIRES: it is sampled.
  void transmitted(const QueuePair& qp, std::uint32_t sequence);
  /// Records that the command succeeded. REQUIRES: it is sampled.
  void completed(const QueuePair& qp, std::uint32_t sequence);
  /// The place of a command that has not started.
  enum class Stage : std::uint8_t { kSendQueue, kKickList, kCount };
  /// Records what commands of the class wait for in this stage.
  void seen(QosClassId qos_class, Stage stage, WaitCause cause) {
    followed_[qos_class.value].usual[static_cast<std::size_t>(stage)] = cause;
  }
  /// Records for started commands of the class how many are sent, how many are not, and what the
  /// latter wait for.
  void seen_started(QosClassId qos_class, std::uint32_t sent, std::uint32_t unsent,
                    WaitCause cause) {
    followed_[qos_class.value].started = {sent, unsent, cause};
  }
  /// Records what each of `commands` commands, from `first` on, waits for in this census.
  void seen(const QueuePair& qp, std::uint32_t first, std::uint64_t commands, WaitCause cause);
  /// Forgets the commands of the queue pair.
  void forget(const QueuePair& qp);

 private:
  struct Command {
    std::uint32_t slot = kNoIndex;  ///< of its queue pair; kNoIndex: the place is free
    std::uint32_t sequence = 0;
    WaitCause cause = WaitCause::kEngine;  ///< according to the last census
    bool is_seen = false;                  ///< a census saw it in its current stage
    Time began{};
    Time looked{};
    std::array<std::uint64_t, static_cast<std::size_t>(WaitCause::kCount)> waited{};  ///< ns
    CommandStage stage = CommandStage::kPost;
    Time entered{};  ///< time by the clock
    std::array<std::uint64_t, static_cast<std::size_t>(CommandStage::kCount)> in_stage{};  ///< ns
  };
  struct Started {
    std::uint32_t sent = 0;
    std::uint32_t unsent = 0;
    WaitCause cause = WaitCause::kEngine;  ///< what unsent commands wait for
  };
  /// The followed commands of a class, and what its commands wait for according to the last census.
  struct OfClass {
    std::array<Command, kMost> commands;
    std::array<WaitCause, static_cast<std::size_t>(Stage::kCount)> usual{};
    Started started;
  };

  void begin(const QueuePair& qp, std::uint32_t sequence, CommandStage stage);
  Command* find(const QueuePair& qp, std::uint32_t sequence);
  void look(Command& command, WaitCause cause);
  void enter(Command& command, CommandStage stage);
  /// Records that the command leaves this stage.
  void pass(const QueuePair& qp, Command& command, Stage stage);
  static void record(const QueuePair& qp, Command& command);

  const StepClock& clock_;
  std::vector<OfClass> followed_;
};

}  // namespace softhca::engine
