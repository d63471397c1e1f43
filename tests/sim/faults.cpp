// SPDX-License-Identifier: Apache-2.0

// The engine ends at each of its stores to memory that outlives it, and the next engine goes on
// with the bytes (restart_world.hpp). The programs find every byte, each completion once, and no
// error. On unreliable services a message may be lost, but none comes twice.
//
// A parent process runs the programs. Before a step of an engine it makes a child for each store of
// the step. The child ends the engine before that store, lets the next engine take over, and runs
// the programs to their end.
//
// With --broken the child changes the bytes, as an engine would leave them that breaks one rule of
// the order of stores. A sweep must then find an error.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/sim/failure.hpp"
#include "tests/sim/restart_programs.hpp"
#include "tests/sim/store_trap.hpp"

namespace softhca::sim {
namespace {

using engine::QpDurable;

constexpr int kMostSteps = 1'000'000;

/// How a child ends.
enum Outcome : int { kGood = 0, kBad = 1, kNoStore = 2 };

/// A rule that the bytes break.
struct Rule {
  const char* name;
  const char* what;
  /// Changes a record. `at_start`: as it was before the step.
  void (*breaks)(QpDurable& record, const QpDurable& at_start);
};

constexpr Rule kRules[] = {
    {"none", "", [](QpDurable&, const QpDurable&) {}},
    {"late-position", "packets and completions leave before the position is stored",
     [](QpDurable& record, const QpDurable& at_start) {
       record.taken = at_start.taken;
       record.sent = at_start.sent;
     }},
    {"no-pending", "a completion is pushed before its place is stored",
     [](QpDurable& record, const QpDurable&) { record.sent_pushes = record.taken_pushes = 0; }},
    {"late-posted", "a VCB or doorbell is released before its commands are stored",
     [](QpDurable& record, const QpDurable& at_start) { record.posted_end = at_start.posted_end; }},
    {"no-attempt", "an unreliable message leaves before the attempt is stored",
     [](QpDurable& record, const QpDurable&) { record.attempted = record.done(); }},
    {"no-draw", "a receive of a shared queue is taken before the draw is stored",
     [](QpDurable& record, const QpDurable&) { record.drawn = 0; }},
    {"no-atomic", "an atomic inside the daemon runs before its record is stored",
     [](QpDurable& record, const QpDurable&) { record.local_atomic = 0; }},
    {"no-replay", "an atomic of a peer runs before its record is stored",
     [](QpDurable& record, const QpDurable&) { record.replays_used = 0; }},
};

struct Options {
  std::uint64_t first = 1;
  std::uint64_t count = 4;
  double part = 1;  ///< of the steps of which the stores are visited
  const Rule* rule = &kRules[0];
  /// Visits only one store of one step.
  int step = -1;
  unsigned host = 0;
  std::uint64_t store = 0;
};

engine::DurableState& engine_state(RestartWorld& w, unsigned host) { return w.durable(host); }
class Sweep {
 public:
  explicit Sweep(const Options& options) : options_(options) {}

  /// Returns true if no child of the seed has found an error.
  bool run(std::uint64_t seed) {
    Programs programs({.local = seed % 2 == 0, .loss = seed % 4 == 1 ? 0.02 : 0}, seed);
    programs.add_some();
    Random choice(seed);
    bool good = true;
    for (int i = 0; i < kMostSteps && !programs.is_done() && good; ++i) {
      if (programs.random().chance(0.1)) programs.act();
      programs.world().advance();
      const bool visits = choice.chance(options_.part);
      for (unsigned host = 0; host < programs.world().hosts(); ++host) {
        if (options_.step >= 0 ? options_.step == i && options_.host == host : visits)
          good = visit(programs, host, seed, i) && good;
        programs.world().poll(host);
      }
      programs.check();
    }
    return good;
  }
  std::uint64_t points() const { return points_; }

 private:
  bool visit(Programs& programs, unsigned host, std::uint64_t seed, int step) {
    for (std::uint64_t store = std::max<std::uint64_t>(options_.store, 1);; ++store) {
      std::fflush(stdout);
      const pid_t child = ::fork();
      require(child >= 0, "fork");
      if (child == 0) ::_exit(live(programs, host, store));
      int status = 0;
      require(::waitpid(child, &status, 0) == child, "waitpid");
      const int outcome = WIFEXITED(status) ? WEXITSTATUS(status) : kBad;
      if (outcome == kNoStore) return true;
      ++points_;
      if (outcome == kGood && options_.store == 0) continue;
      if (outcome == kGood) return true;
      if (!WIFEXITED(status)) std::printf("signal %d\n", WTERMSIG(status));
      std::printf("--first %llu --count 1 --step %d --host %u --store %llu\n",
                  static_cast<unsigned long long>(seed), step, host,
                  static_cast<unsigned long long>(store));
      return false;
    }
  }

  /// Runs in the child.
  Outcome live(Programs& programs, unsigned host, std::uint64_t store) const {
    RestartWorld& world = programs.world();
    engine::QpTable& table = world.queue_pairs(host);
    std::vector<std::pair<std::uint32_t, QpDurable>> before;
    table.for_each(
        [&](engine::QueuePair& qp) { before.emplace_back(qp.slot, *qp.record.durable); });
    StoreTrap trap;
    programs.watch(trap, host);
    if (!trap.run(store, [&] { world.poll(host); })) return kNoStore;
    try {
      for (const auto& [slot, record] : before)
        if (engine::QueuePair* const qp = table.at(slot))
          options_.rule->breaks(*qp->record.durable, record);
      auto dump = [&](const char* when) { if (!getenv("DBG")) return; world.queue_pairs(host).for_each([&](engine::QueuePair& qp) { QpDurable& d=*qp.record.durable; fprintf(stderr,"%s slot %u qpn %x type %d state %d done %u posted %u psn %x ssn %x unacked %x end %x att %u | exp %x msn %x kind %d est %d first %x len %u rcvd %u drawn %d/%u push %d/%d used %d\n", when, qp.slot, qp.qpn.value, (int)qp.type, d.state, d.done(), d.posted_end, (unsigned)(d.sent>>16)&0xffffff, (unsigned)(d.sent>>40), d.unacked, d.sent_end, d.attempted, (unsigned)d.taken&0xffffff, (unsigned)(d.taken>>24)&0xffffff, (int)(d.taken>>48&3), (int)(d.taken>>50&1), d.message_first, d.message_length, d.received, d.drawn, d.drawn_counter, d.sent_pushes, d.taken_pushes, d.replays_used); for (unsigned i=0;i<d.replays_used;++i){ auto& r=engine_state(world,host).replays(qp.slot).all[i]; fprintf(stderr,"   replay %u first %x packets %u taken %d atomic %d empty %d due %d state %d start %u next %u end %u len %u before %lu after %lu\n", i, r.first.value(), r.packets, r.taken, r.atomic, r.empty, r.due, (int)r.state, r.start, r.next, r.end, r.length, r.step.before, r.step.after);} }); };
      dump("dead");
      world.take_over(host);
      dump("next");
      for (unsigned other = host + 1; other < world.hosts(); ++other) world.poll(other);
      programs.check();
      for (int i = 0; !programs.is_done(); ++i) {
        require(i < kMostSteps, "not done after all steps");
        programs.step();
      }
      programs.finish();
    } catch (const Failure& failure) {
      std::printf("%s: ", failure.what());
      std::fflush(stdout);
      return kBad;
    }
    return ::testing::Test::HasFailure() ? kBad : kGood;
  }

  const Options options_;
  std::uint64_t points_ = 0;
};

const Rule* rule_of(const char* name) {
  for (const Rule& rule : kRules)
    if (std::strcmp(rule.name, name) == 0) return &rule;
  std::fprintf(stderr, "--broken %s: no such rule\n", name);
  std::exit(2);
}

}  // namespace
}  // namespace softhca::sim

int main(int argc, char** argv) {
  using namespace softhca::sim;
  if (!StoreTrap::kAvailable) {
    std::printf("needs the single step of x86-64\n");
    return 77;
  }
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--first") == 0)
      options.first = std::strtoull(argv[i + 1], nullptr, 0);
    if (std::strcmp(argv[i], "--count") == 0)
      options.count = std::strtoull(argv[i + 1], nullptr, 0);
    if (std::strcmp(argv[i], "--part") == 0) options.part = std::strtod(argv[i + 1], nullptr);
    if (std::strcmp(argv[i], "--step") == 0) options.step = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--host") == 0)
      options.host = static_cast<unsigned>(std::atoi(argv[i + 1]));
    if (std::strcmp(argv[i], "--store") == 0)
      options.store = std::strtoull(argv[i + 1], nullptr, 0);
    if (std::strcmp(argv[i], "--broken") == 0) options.rule = rule_of(argv[i + 1]);
  }
  Sweep sweep(options);
  const bool breaks = options.rule != &kRules[0];
  std::uint64_t failures = 0;
  std::uint64_t seed = options.first;
  for (; seed < options.first + options.count && !(breaks && failures != 0); ++seed)
    failures += !sweep.run(seed);
  std::printf("%llu seeds, %llu stores, %llu failures\n",
              static_cast<unsigned long long>(seed - options.first),
              static_cast<unsigned long long>(sweep.points()),
              static_cast<unsigned long long>(failures));
  if (!breaks) return failures == 0 ? 0 : 1;
  if (failures == 0) std::printf("not found: %s\n", options.rule->what);
  return failures != 0 ? 0 : 1;
}
