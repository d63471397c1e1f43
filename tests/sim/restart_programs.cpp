// SPDX-License-Identifier: Apache-2.0

#include "tests/sim/restart_programs.hpp"

#include <algorithm>

#include "tests/sim/failure.hpp"

namespace softhca::sim {

using engine::QpType;

namespace {

constexpr engine::XrcDomainId kDomain(7);
constexpr std::uint32_t kCompletions = 512;

void choose_ending(LaneOptions& options, Random& random) {
  options.drains = random.chance(0.3) && options.type != QpType::kUc;
  if (random.chance(0.5)) return;
  options.ends_at = random.below(options.operations);
  const bool reliable = engine::is_reliable(options.type);
  options.ending = reliable && random.chance(0.5) ? Ending::kRemoteAccess
                   : random.chance(0.5)           ? Ending::kLocalProtection
                                                  : Ending::kByProgram;
}

}  // namespace

Programs::Programs(const RestartOptions& options, std::uint64_t seed)
    : random_(seed), world_(options, random_) {
  send_ = &world_.a->make_cq(kCompletions);
  receive_ = &world_.b->make_cq(kCompletions);
  xrc_receive_ = &world_.b->make_cq(kCompletions);
  srq_ = &world_.b->make_srq();
  xrc_srq_ = &world_.b->make_srq(kDomain, *xrc_receive_);
  shared_ = std::make_unique<ReceiveSlots>(*world_.b, kReceiveBytes);
  xrc_shared_ = std::make_unique<ReceiveSlots>(*world_.b, kReceiveBytes);
}

void Programs::add_all(std::uint32_t operations) {
  add({.type = QpType::kRc, .operations = operations});
  add({.type = QpType::kRc, .operations = operations, .longest = 40000});
  add({.type = QpType::kRc, .srq = srq_, .operations = operations});
  add({.type = QpType::kRc, .srq = srq_, .operations = operations});
  add({.type = QpType::kUc, .operations = operations});
  add({.type = QpType::kUd, .operations = operations});
  add({.type = QpType::kUd, .srq = srq_, .operations = operations});
  add({.type = QpType::kXrcSend, .srq = xrc_srq_, .operations = operations});
}

void Programs::add_some() {
  const LaneOptions kinds[] = {{.type = QpType::kRc},
                               {.type = QpType::kRc, .srq = srq_},
                               {.type = QpType::kUc},
                               {.type = QpType::kUd},
                               {.type = QpType::kUd, .srq = srq_},
                               {.type = QpType::kXrcSend, .srq = xrc_srq_}};
  for (std::uint32_t lanes = random_.between(1, 3); lanes > 0; --lanes) {
    LaneOptions options = random_.chance(0.4) ? kinds[0] : kinds[random_.below(std::size(kinds))];
    options.operations = random_.between(2, 12);
    options.longest = random_.between(64, 4000);
    choose_ending(options, random_);
    add(options);
  }
}

void Programs::add(const LaneOptions& options) {
  const auto number = static_cast<std::uint32_t>(lanes_.size());
  lanes_.push_back(std::make_unique<Lane>(world_, *send_, *receive_, options, number, random_));
  Lane& lane = *lanes_.back();
  if (options.srq == nullptr) {
    own_.push_back(std::make_unique<ReceiveSlots>(
        *world_.b, std::max(kReceiveBytes, options.longest + kReceiveBytes)));
    lane.receives = own_.back().get();
  } else {
    lane.receives = options.srq == srq_ ? shared_.get() : xrc_shared_.get();
  }
}

void Programs::act() {
  shared_->post(srq_->ring, random_);
  xrc_shared_->post(xrc_srq_->ring, random_);
  for (const auto& lane : lanes_) lane->act();
}

void Programs::check() {
  for (const auto& c : send_->poll_all()) lane_of(c.qpn, true).completed(c);
  for (const auto& c : receive_->poll_all())
    c.is_receive ? lane_of(c.qpn, false).received(c) : lane_of(c.qpn, false).bound(c);
  for (const auto& c : xrc_receive_->poll_all()) lane_of(c.qpn, false).received(c);
}

void Programs::step() {
  if (random_.chance(0.1)) act();
  world_.step();
  check();
}

Lane& Programs::lane_of(std::uint32_t qpn, bool near) {
  for (const auto& lane : lanes_)
    if ((near ? lane->near() : lane->far()).qp.qpn.value == qpn) return *lane;
  throw Failure("completion of an unknown queue pair");
}

bool Programs::is_done() const {
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [](const auto& lane) { return lane->is_done(); });
}

void Programs::watch(StoreTrap& trap, unsigned host) {
  world_.watch(trap, host);
  for (const auto& lane : lanes_) trap.watch(lane->counter().pages());
}

/// Each receive of a shared queue is still there, or a queue pair has drawn it.
void Programs::expect_receives(const ReceiveSlots& slots, engine::TestSrq& srq) {
  std::uint32_t held = 0;
  world_.queue_pairs(world_.hosts() - 1).for_each([&](const engine::QueuePair& qp) {
    held += qp.rq.drawn && qp.srq == &srq.srq;
  });
  require(srq.srq.ring.available().value_or(0) + held == slots.posted(), "receive lost", held);
}

void Programs::finish() {
  constexpr int kQuiet = 200;
  for (int i = 0; i < kQuiet; ++i) step();
  for (const auto& lane : lanes_) lane->expect_complete();
  expect_receives(*shared_, *srq_);
  expect_receives(*xrc_shared_, *xrc_srq_);
  for (unsigned host = 0; host < world_.hosts(); ++host)
    for (const auto& event : world_.sink(host).async)
      require(event.type == engine::EventType::kCommunicationEstablished ||
                  std::ranges::any_of(
                      lanes_, [&](const auto& lane) { return lane->may_raise(event.type); }),
              "event", static_cast<std::uint64_t>(event.type));
}

}  // namespace softhca::sim
