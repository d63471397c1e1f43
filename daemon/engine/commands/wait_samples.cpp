// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/commands/wait_samples.hpp"

#include <algorithm>
#include <utility>

namespace softhca::engine {
namespace {

// A command that takes longer gives up its place: it may never end.
constexpr Duration kPatience = std::chrono::seconds(10);

}  // namespace

void WaitSamples::begin(const QueuePair& qp, std::uint32_t sequence, CommandStage stage) {
  if (find(qp, sequence) != nullptr) return;  // its doorbell was rung again
  auto& all = followed_[qp.qos_class.value].commands;
  Command* const place = std::ranges::min_element(all, {}, [](const Command& command) {
    return command.slot == kNoIndex ? Time{} : command.began;
  });
  if (place->slot != kNoIndex) {
    if (clock_.now - place->began < kPatience) return;
    record(qp, *place);
  }
  *place = {.slot = qp.slot, .sequence = sequence, .began = clock_.now, .looked = clock_.now};
  place->stage = stage;
  place->entered = clock_.exact();
  const auto posted = qp.sq.ring.posted_before(place->entered, sequence);
  if (posted && *posted < kPatience)
    place->in_stage[static_cast<std::size_t>(CommandStage::kPost)] =
        static_cast<std::uint64_t>(posted->count());
}

WaitSamples::Command* WaitSamples::find(const QueuePair& qp, std::uint32_t sequence) {
  for (Command& command : followed_[qp.qos_class.value].commands)
    if (command.slot == qp.slot && command.sequence == sequence) return &command;
  return nullptr;
}

void WaitSamples::look(Command& command, WaitCause cause) {
  const Time since = std::exchange(command.looked, clock_.now);
  command.waited[static_cast<std::size_t>(cause)] +=
      static_cast<std::uint64_t>((clock_.now - since).count());
}

void WaitSamples::enter(Command& command, CommandStage stage) {
  const Time now = clock_.exact();
  command.in_stage[static_cast<std::size_t>(command.stage)] +=
      static_cast<std::uint64_t>((now - command.entered).count());
  command.stage = stage;
  command.entered = now;
}

void WaitSamples::pass(const QueuePair& qp, Command& command, Stage stage) {
  const WaitCause usual = followed_[qp.qos_class.value].usual[static_cast<std::size_t>(stage)];
  look(command, command.is_seen ? command.cause : usual);
  command.is_seen = false;
}

void WaitSamples::kicked(const QueuePair& qp, std::uint32_t sequence) {
  Command* const command = find(qp, sequence);
  if (command == nullptr) return begin(qp, sequence, CommandStage::kKick);
  pass(qp, *command, Stage::kSendQueue);
  enter(*command, CommandStage::kKick);
}

void WaitSamples::started(const QueuePair& qp, std::uint32_t sequence) {
  Command* const command = find(qp, sequence);
  if (command == nullptr) return;
  pass(qp, *command, Stage::kKickList);
  enter(*command, CommandStage::kTransmit);
}

void WaitSamples::transmitted(const QueuePair& qp, std::uint32_t sequence) {
  Command* const command = find(qp, sequence);
  if (command != nullptr && command->stage == CommandStage::kTransmit)
    enter(*command, CommandStage::kAcknowledge);
}

void WaitSamples::completed(const QueuePair& qp, std::uint32_t sequence) {
  Command* const command = find(qp, sequence);
  if (command == nullptr) return;
  // Its last wait began when it started or was last checked. Part of it was the wait to be sent.
  const Started& usual = followed_[qp.qos_class.value].started;
  const auto time = static_cast<std::uint64_t>((clock_.now - command->looked).count());
  const std::uint64_t all = std::uint64_t{usual.sent} + usual.unsent;
  const std::uint64_t unsent = all == 0 ? 0 : time * usual.unsent / all;
  const WaitCause last = qp.is_local() ? WaitCause::kEngine : WaitCause::kAcknowledgement;
  command->waited[static_cast<std::size_t>(usual.cause)] += unsent;
  command->waited[static_cast<std::size_t>(last)] += time - unsent;
  enter(*command, CommandStage::kCount);
  for (std::size_t i = 0; i < command->in_stage.size(); ++i)
    if (command->in_stage[i] != 0) waits_of(qp).in_stage[i].add(command->in_stage[i]);
  record(qp, *command);
}

void WaitSamples::record(const QueuePair& qp, Command& command) {
  WaitCounters& waits = waits_of(qp);
  for (std::size_t i = 0; i < command.waited.size(); ++i)
    if (command.waited[i] != 0) waits.of_one[i].add(command.waited[i]);
  command = {};
}

void WaitSamples::seen(const QueuePair& qp, std::uint32_t first, std::uint64_t commands,
                       WaitCause cause) {
  for (Command& command : followed_[qp.qos_class.value].commands)
    if (command.slot == qp.slot && command.sequence - first < commands) {
      look(command, cause);
      command.cause = cause;
      command.is_seen = true;
    }
}

void WaitSamples::forget(const QueuePair& qp) {
  for (Command& command : followed_[qp.qos_class.value].commands)
    if (command.slot == qp.slot) command = {};
}

}  // namespace softhca::engine
