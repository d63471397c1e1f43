// SPDX-License-Identifier: Apache-2.0

// A tenant that breaks the rules: makes queues that work, uses them as a program would, and writes
// random words over everything it shares with the daemon, again and again.
//
// usage: scribble SOCKET IPV4-ADDRESS SEED STEPS
// SOCKET is the tenant's, IPV4-ADDRESS its own. The words and their places follow from SEED.
#include <arpa/inet.h>
#include <sched.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>

#include "tests/system/isolation/hostile/life.hpp"

namespace {

constexpr std::uint64_t kStepsOfALife = 2000;

}  // namespace

int main(int argc, char** argv) {
  using namespace softhca::scribble;
  if (argc != 5) return std::fprintf(stderr, "usage: scribble SOCKET IPV4-ADDRESS SEED STEPS\n"), 2;
  Session session(argv[1]);
  session.gid[10] = session.gid[11] = 0xff;
  if (inet_pton(AF_INET, argv[2], &session.gid[12]) != 1) die(argv[2]);
  Random random;
  const std::uint64_t seed = std::strtoull(argv[3], nullptr, 10);
  // For itself, so that a step does not depend on how the steps before it went.
  const auto seed_for = [&](std::uint64_t step) { random.seed(seed << 40 | step); };
  Score score;
  const std::uint64_t steps = std::strtoull(argv[4], nullptr, 10);
  for (std::uint64_t done = 0; done < steps;) {
    seed_for(steps + done);
    Life life(session, random, score);
    for (std::uint64_t i = 0; i < kStepsOfALife && done < steps; ++i, ++done) {
      seed_for(done);
      life.step();
      if (done % 16 == 0) session.punch_holes(score);
      sched_yield();
    }
  }
  std::printf("seed %s: %" PRIu64 " posts, %" PRIu64 " receives, %" PRIu64 " reconnects; %" PRIu64
              " good, %" PRIu64 " bad completions\n",
              argv[3], score.posts, score.receives, score.reconnects, score.good, score.bad);
  std::printf("%" PRIu64 " holes made, %" PRIu64 " refused\n", score.holes, score.holes_refused);
  for (const auto& [name, words] : score.words)
    std::printf("%10" PRIu64 " words over %s\n", words, name.c_str());
}
