// SPDX-License-Identifier: Apache-2.0

// The engine ends at each of its stores to memory that outlives it, and the next engine goes on
// with the bytes (restart_world.hpp). The programs find every byte, each completion once, and no
// error. On unreliable services a message may be lost, but none comes twice.
//
// A parent process runs the programs. Before a store of an engine it makes a child, in which the
// engine ends there, the next one takes over, and the programs run to their end. Meanwhile engines
// end again now and then, some of them while they take over.
//
//   sim-faults [--first SEED] [--count SEEDS] [--chance C] [--most N] [--step N] [--store N]
//   [--stop]
//
// --chance visits the stores of a part of the steps, --most so many of a seed at most, and --step
// and --store those of one step or a single one. --stop ends after a failure.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tests/sim/failure.hpp"
#include "tests/sim/restart_programs.hpp"
#include "tests/sim/store_trap.hpp"

namespace softhca::sim {
namespace {

constexpr int kMostSteps = 1'000'000;
constexpr double kEndsAgain = 0.02;  ///< chance, for each step after the first end
constexpr double kEndsTakingOver = 0.3;
constexpr std::uint32_t kMostStores = 40;  ///< of an engine that ends again

struct Options {
  std::uint64_t first = 1;
  std::uint64_t count = 4;
  double chance = 1;                       ///< that the stores of a step are visited
  int step = -1;                           ///< visits only this step; -1: all
  std::uint64_t store = 0;                 ///< visits only this store of a step; 0: all
  std::uint64_t most = ~std::uint64_t{0};  ///< stores of a seed that are visited
  bool stop = false;                       ///< after the first failure
};

pid_t make_child() {
  std::fflush(stdout);
  const pid_t child = ::fork();
  require(child >= 0, "fork");
  return child;
}

[[noreturn]] void end_child(bool good) {
  std::fflush(stdout);
  ::_exit(good ? 0 : 1);
}

bool ended_well(pid_t child) {
  int status = 0;
  require(::waitpid(child, &status, 0) == child, "waitpid");
  if (WIFSIGNALED(status)) std::printf("signal %d: ", WTERMSIG(status));
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class Sweep {
 public:
  explicit Sweep(const Options& options) : options_(options) {}

  /// Returns the number of stores of the seed at which an error was found.
  std::uint64_t run(std::uint64_t seed) {
    Programs programs({.local = seed % 2 == 0, .loss = seed % 4 == 1 ? 0.02 : 0}, seed);
    programs.add_some();
    Random choice(seed);
    std::uint64_t failures = 0, visited = 0;
    for (int i = 0; i < kMostSteps && !programs.is_done(); ++i) {
      if (programs.random().chance(0.1)) programs.act();
      programs.world().advance();
      const bool visits = options_.step >= 0 ? options_.step == i : choice.chance(options_.chance);
      std::uint64_t stores = 0;
      for (unsigned host = 0; host < programs.world().hosts(); ++host) {
        if (!visits) {
          programs.world().poll(host);
          continue;
        }
        StoreTrap trap;
        programs.watch(trap, host);
        const auto visit = [&](std::uint64_t) {
          ++stores;
          const bool chosen = options_.store == 0 || options_.store == stores;
          if (!chosen || visited == options_.most || (options_.stop && failures != 0)) return false;
          ++visited;
          ++points_;
          const pid_t child = make_child();
          if (child == 0) return true;
          if (ended_well(child)) return false;
          std::printf("--first %llu --count 1 --step %d --store %llu\n",
                      static_cast<unsigned long long>(seed), i,
                      static_cast<unsigned long long>(stores));
          ++failures;
          return false;
        };
        if (trap.run([&] { programs.world().poll(host); }, visit))
          end_child(live_on(programs, trap, host));
      }
      programs.check();
    }
    programs.finish();
    return failures;
  }
  std::uint64_t points() const { return points_; }

 private:
  /// The engine of `host` has just ended.
  static bool live_on(Programs& programs, StoreTrap& trap, unsigned host) {
    RestartWorld& world = programs.world();
    Random& random = programs.random();
    try {
      take_over(world, trap, host, random);
      for (unsigned other = host + 1; other < world.hosts(); ++other) world.poll(other);
      programs.check();
      for (int i = 0; !programs.is_done(); ++i) {
        require(i < kMostSteps, "not done after all steps");
        if (random.chance(0.1)) programs.act();
        world.advance();
        for (unsigned now = 0; now < world.hosts(); ++now) {
          if (!random.chance(kEndsAgain)) {
            world.poll(now);
            continue;
          }
          StoreTrap again;
          programs.watch(again, now);
          const std::uint64_t last = random.between(1, kMostStores);
          if (again.run([&] { world.poll(now); },
                        [&](std::uint64_t store) { return store == last; }))
            take_over(world, again, now, random);
        }
        programs.check();
      }
      programs.finish();
    } catch (const Failure& failure) {
      std::printf("%s: ", failure.what());
      return false;
    }
    return !::testing::Test::HasFailure();
  }

  /// The next engine takes over. Before that, one may end while it does so.
  static void take_over(RestartWorld& world, StoreTrap& trap, unsigned host, Random& random) {
    if (random.chance(kEndsTakingOver)) end_while_taking_over(world, trap, host, random);
    world.take_over(host);
  }

  /// An engine takes over in a child and ends there. What it has stored comes back.
  static void end_while_taking_over(RestartWorld& world, StoreTrap& trap, unsigned host,
                                    Random& random) {
    std::size_t bytes = 0;
    for (const auto& pages : trap.watched()) bytes += pages.size();
    void* const mapped =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    require(mapped != MAP_FAILED, "mmap");
    auto* const copy = static_cast<std::byte*>(mapped);
    const std::uint64_t last = random.between(1, kMostStores);
    const pid_t child = make_child();
    if (child == 0) {
      trap.run([&] { world.take_over(host); }, [&](std::uint64_t store) { return store == last; });
      std::size_t at = 0;
      for (const auto& pages : trap.watched()) {
        std::memcpy(copy + at, pages.data(), pages.size());
        at += pages.size();
      }
      end_child(!::testing::Test::HasFailure());
    }
    require(ended_well(child), "take-over");
    std::size_t at = 0;
    for (const auto& pages : trap.watched()) {
      std::memcpy(pages.data(), copy + at, pages.size());
      at += pages.size();
    }
    ::munmap(mapped, bytes);
  }

  const Options options_;
  std::uint64_t points_ = 0;
};

/// Returns the exit code: 1 if an engine that ended did harm, 2 if the programs fail by themselves.
int run(const Options& options) {
  if (!StoreTrap::kAvailable) {
    std::printf("needs the single step of x86-64\n");
    return 77;
  }
  Sweep sweep(options);
  std::uint64_t failures = 0, seed = options.first;
  for (; seed < options.first + options.count && !(options.stop && failures != 0); ++seed) {
    try {
      failures += sweep.run(seed);
    } catch (const Failure& failure) {
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), failure.what());
      return 2;
    }
  }
  std::printf("%llu seeds, %llu points, %llu failures\n",
              static_cast<unsigned long long>(seed - options.first),
              static_cast<unsigned long long>(sweep.points()),
              static_cast<unsigned long long>(failures));
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace softhca::sim

int main(int argc, char** argv) {
  softhca::sim::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : "";
    if (name == "--stop") {
      options.stop = true;
      continue;
    }
    if (name == "--first")
      options.first = std::strtoull(value, nullptr, 0);
    else if (name == "--count")
      options.count = std::strtoull(value, nullptr, 0);
    else if (name == "--chance")
      options.chance = std::strtod(value, nullptr);
    else if (name == "--most")
      options.most = std::strtoull(value, nullptr, 0);
    else if (name == "--step")
      options.step = std::atoi(value);
    else if (name == "--store")
      options.store = std::strtoull(value, nullptr, 0);
    else
      return std::fprintf(stderr, "unknown: %s\n", argv[i]), 2;
    ++i;
  }
  return softhca::sim::run(options);
}
