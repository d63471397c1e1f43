// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/commands/wait_census.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "daemon/engine/records/costs.hpp"

namespace softhca::engine {
namespace {

// The interval between two censuses is random, so that periodic events cannot hide between them.
constexpr std::uint32_t kLeastInterval = 1 << 17;   ///< ns
constexpr std::uint32_t kSpreadInterval = 1 << 17;  ///< ns, a power of two
// Checks in a census, and for one session. They are so few that the rate of short messages is the
// same with and without them.
constexpr unsigned kLooks = 12;
constexpr unsigned kLooksOfSession = 4;

// Commands posted since the last step have waited for half of the time since then, but at most for
// the longest duration of a step. If the step took longer, the engine slept and the commands woke
// it.
constexpr Duration kLongestStep = std::chrono::microseconds(100);

// The next turn of the queue pair tries a port again that refused a packet.
constexpr Duration kRefusalHolds = std::chrono::milliseconds(1);

std::uint64_t nanoseconds(Duration duration) {
  return static_cast<std::uint64_t>(duration.count());
}

}  // namespace

void WaitCensus::take(Time previous) {
  random_ = random_ * 1664525 + 1013904223;  // Numerical Recipes
  due_ = clock_.now + Duration(kLeastInterval + (random_ >> 8) % kSpreadInterval);
  guarantees_.begin_census();
  const std::uint64_t worked = (cpu_.spent() - spent_) / kUnitsPerNanosecond;
  busy_ = worked >= nanoseconds(clock_.now - taken_) / 8 * 7;
  spent_ = cpu_.spent();
  taken_ = clock_.now;
  const std::vector<Session*>& sessions = intake_.sessions();
  unsigned looks = 0;
  for (std::size_t i = 0; i < sessions.size() && looks < kLooks; ++i) {
    next_session_ = next_session_ + 1 < sessions.size() ? next_session_ + 1 : 0;
    Session& session = *sessions[next_session_];
    look(session, clock_.now - previous);
    ++looks;
    for (unsigned of_session = 0; of_session < kLooksOfSession; ++of_session, ++looks) {
      QueuePair* qp = session.queue_pairs.front();
      if (qp == nullptr || qp->sq.waits.counted == clock_.now) break;
      session.queue_pairs.rotate();
      look(*qp);
    }
  }
}

/// Returns the time since `counted`, in ns, and sets `counted` to now. 0 at the first check.
std::uint64_t WaitCensus::elapsed(Time& counted) const {
  const Time since = std::exchange(counted, clock_.now);
  return since == Time{} ? 0 : nanoseconds(clock_.now - since);
}

/// Counts commands that are still in the session memory.
void WaitCensus::look(Session& session, Duration gap) {
  const std::uint64_t time = elapsed(session.poll.counted);
  if (session.parked || session.failed) return;
  const std::uint64_t posted = static_cast<unsigned>(std::popcount(
                                   session.view.pending() & ~session.poll.unfinished.resting())) +
                               session.view.doorbells();
  if (posted == 0) return;
  if (session.held_by_rate()) return session.waits().add(WaitCause::kRate, posted * time);
  if (session.poll.waiting) return session.waits().add(WaitCause::kEngine, posted * time);
  session.waits().add(WaitCause::kEngine,
                      posted * (gap <= kLongestStep ? time : nanoseconds(kLongestStep)) / 2);
}

/// Counts the commands of the queue pair: those in its send queue that doorbells announced, in its
/// kick list, and in its transport.
void WaitCensus::look(QueuePair& qp) {
  const std::uint64_t time = elapsed(qp.sq.waits.counted);
  const schedule::QpSlot slot(qp.slot);
  if (!qp.sends()) return;
  // The overflow buffer stands for one doorbell, with an unknown number of commands.
  const std::uint32_t pending = scheduler_.overflowed(slot) ? 1 : scheduler_.pending(slot);
  if (pending == 0 && qp.sq.commands == 0) return guarantees_.looked(qp, false);
  const std::uint32_t kicked = scheduler_.kicked(slot);
  const std::uint32_t started = qp.sq.started;
  const std::uint32_t held = qp.sq.commands - std::min(qp.sq.commands, kicked + started);
  const transport::SendProgress progress =
      std::visit([](const auto& transport) { return transport.progress(); }, qp.transport);
  const auto unsent = static_cast<std::uint32_t>(
      progress.outstanding == 0 ? 0
                                : std::uint64_t{started} * progress.unsent / progress.outstanding);
  WaitCounters& waits = waits_of(qp);
  std::uint32_t first = scheduler_.next_sequence(slot) - qp.sq.commands;  // its oldest
  const auto add = [&](WaitCause cause, std::uint64_t commands) {
    if (commands == 0) return;
    waits.add(cause, commands * time);
    commands_.samples().seen(qp, first, commands, cause);
    first += static_cast<std::uint32_t>(commands);
  };
  add(WaitCause::kAcknowledgement, started - unsent);
  // The first command that is not sent determines the cause for all behind it. So does one that is
  // sent alone after a stall.
  if (qp.sq.stalled || progress.unsent != 0) {
    const WaitCause cause = in_front(qp, progress.obstacle);
    commands_.samples().seen_started(qp.qos_class, started - unsent, unsent, cause);
    guarantees_.looked(qp, cause == WaitCause::kEngine);
    return add(cause, unsent + held + kicked + pending);
  }
  commands_.samples().seen_started(qp.qos_class, started, 0, WaitCause::kEngine);
  guarantees_.looked(qp, false);
  if (qp.sq.aside != SetAside::kNo)
    return add(cause_of(qp.sq.aside, progress.next), held + kicked + pending);
  if (qp.sq.probing) return add(WaitCause::kAcknowledgement, pending);
  if (held != 0) return add(WaitCause::kOrder, held + kicked + pending);
  const auto wait = [&](WaitCause cause, std::uint32_t commands) {
    add(cause, commands);
    if (cause == WaitCause::kNoPcb) guarantees_.waits_for_pcb(qp);
    if (cause == WaitCause::kExecutionCredit || cause == WaitCause::kCompletionCredit)
      guarantees_.waits_for_credits(qp);
  };
  const auto wait_in = [&](WaitSamples::Stage stage, WaitCause cause, std::uint32_t commands) {
    commands_.samples().seen(qp.qos_class, stage, cause);
    wait(cause, commands);
  };
  if (kicked != 0) wait_in(WaitSamples::Stage::kKickList, in_kick_list(qp), kicked);
  if (pending != 0) wait_in(WaitSamples::Stage::kSendQueue, in_send_queue(qp, kicked), pending);
}

/// Returns what a suspended queue pair waits for.
WaitCause WaitCensus::cause_of(SetAside aside, transport::SendObstacle obstacle) {
  switch (aside) {
    case SetAside::kPace:
      return WaitCause::kCongestion;
    case SetAside::kNeighbour:
      return WaitCause::kNeighbour;
    case SetAside::kNo:
    case SetAside::kTransport:
    case SetAside::kHeld:
      break;
  }
  if (obstacle == transport::SendObstacle::kPace) return WaitCause::kCongestion;
  if (obstacle == transport::SendObstacle::kWindow) return WaitCause::kAcknowledgement;
  return obstacle == transport::SendObstacle::kReceiver ? WaitCause::kReceiver : WaitCause::kOrder;
}

/// Returns what the first command that is not sent waits for.
WaitCause WaitCensus::in_front(const QueuePair& qp, transport::SendObstacle obstacle) const {
  if (memory_.waits(qp) || accesses_.waits(qp.slot, MemoryWaits::Side::kSend))
    return WaitCause::kMemory;
  switch (obstacle) {
    case transport::SendObstacle::kWindow:
    case transport::SendObstacle::kPeer:
      return WaitCause::kAcknowledgement;
    case transport::SendObstacle::kPace:
      return WaitCause::kCongestion;
    case transport::SendObstacle::kOrder:
      return WaitCause::kOrder;
    case transport::SendObstacle::kReceiver:
      return WaitCause::kReceiver;
    case transport::SendObstacle::kPeerRate:
      return WaitCause::kPeerRate;
    case transport::SendObstacle::kNone:
      break;
  }
  if (qp.connection.flow.wake_at() != kNever) return WaitCause::kCongestion;
  return clock_.now - qp.sq.waits.refused < kRefusalHolds ? qp.sq.waits.port : WaitCause::kEngine;
}

WaitCause WaitCensus::in_kick_list(const QueuePair& qp) {
  if (is_saturated(qp.qos_class)) return WaitCause::kEngine;
  if (scheduler_.kicked_in(schedule::QpSlot(qp.slot)) == schedule::KickedIn::kDedicatedTvl)
    return qp.sq.waits.fetch;
  return lacked(qp.sq.tvl);
}

WaitCause WaitCensus::in_send_queue(const QueuePair& qp, std::uint32_t kicked) {
  const schedule::QpSlot slot(qp.slot);
  if (held_by_rate(qp) || qp.sq.waits.fetch == WaitCause::kRate) return WaitCause::kRate;
  if (qp.state == QpState::kSqd) return WaitCause::kOrder;
  if (is_saturated(qp.qos_class)) return WaitCause::kEngine;
  const bool is_behind = kicked != 0 || commands_.ahead().waits(slot);
  if (const WaitCause before = is_behind ? in_kick_list(qp) : WaitCause::kEngine;
      before != WaitCause::kEngine)
    return before;
  if (scheduler_.is_class_blocked(qp.qos_class)) return WaitCause::kNoPcb;
  if (qp.sq.waits.fetch != WaitCause::kEngine) return qp.sq.waits.fetch;
  return qp.sq.waits.no_vcb && !busy_ ? WaitCause::kNoVcb : WaitCause::kEngine;
}

/// True if the class has work for the engine now and has always had since the last check.
bool WaitCensus::is_saturated(QosClassId qos_class) {
  ClassLoad& load = classes_[qos_class.value];
  if (load.looked == clock_.now) return load.saturated;
  const std::uint32_t rests = cpu_.order().rests(qos_class);
  load = {rests, clock_.now, rests == load.rests && cpu_.order().has_work(qos_class)};
  return load.saturated;
}

/// Returns the credit that the TVL lacks, or has lacked since the last check. Credits that return
/// within a step are free again when it ends, and the next step uses them up again.
WaitCause WaitCensus::lacked(TvlId tvl) {
  TvlLack& lack = tvls_[tvl.value];
  if (lack.looked == clock_.now) return lack.lacked;
  const schedule::TvlCounters& counters = arbitrator_.counters(tvl);
  const std::uint64_t execution = counters.execution_waits.value();
  const std::uint64_t completion = counters.completion_waits.value();
  const std::uint64_t more_execution = execution - lack.execution_waits;
  const std::uint64_t more_completion = completion - lack.completion_waits;
  const bool had_no_execution = more_execution != 0 && more_execution >= more_completion;
  lack = {execution, completion, clock_.now, WaitCause::kEngine};
  if (arbitrator_.lacks_execution(tvl))
    lack.lacked = WaitCause::kExecutionCredit;
  else if (arbitrator_.lacks_completion(tvl))
    lack.lacked = WaitCause::kCompletionCredit;
  else if (had_no_execution)
    lack.lacked = WaitCause::kExecutionCredit;
  else if (more_completion != 0)
    lack.lacked = WaitCause::kCompletionCredit;
  return lack.lacked;
}

}  // namespace softhca::engine
