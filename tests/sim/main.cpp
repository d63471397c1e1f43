// SPDX-License-Identifier: Apache-2.0

// Seeded simulation of two adapters over a bad link in virtual time.
//
//   sim [--count N] [--first N] [--seed N] [--goodput FILE]
//
// runs N worlds (default 3000) of the seeds from --first on, each once with a reliable connection,
// once unreliably, and once with two connection managers that connect and disconnect; --seed runs
// a single one. On a failure the seed is printed; the same seed fails the same way again. --goodput
// compares the cost of loss with an approved table.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/sim/cm_world.hpp"
#include "tests/sim/goodput.hpp"
#include "tests/sim/rc_world.hpp"
#include "tests/sim/unreliable_world.hpp"

namespace {

using namespace softhca::sim;
using softhca::transport::Count;

template <class World>
bool report(const char* name, std::uint64_t seed, World world) {
  try {
    world();
    return true;
  } catch (const Failure& f) {
    std::printf("%s seed %llu failed: %s\n", name, static_cast<unsigned long long>(seed), f.what());
    return false;
  }
}

bool run_seed(std::uint64_t seed, Counts& totals, CmCounts& cm_totals) {
  Random random(seed);
  bool good = report("reliable", seed, [&] {
    const RcSettings settings = random_rc_settings(random);
    run_rc(settings, random.next(), totals);
  });
  Random other(~seed);
  good &= report("unreliable", seed, [&] {
    const UnreliableSettings settings = random_unreliable_settings(other);
    run_unreliable(settings, other.next(), totals);
  });
  Random third(seed * 3);
  good &= report("connections", seed, [&] {
    const CmSettings settings = random_cm_settings(third);
    run_cm(settings, third.next(), cm_totals);
  });
  return good;
}

/// A simulation that never comes by some event proves nothing about it.
bool check_coverage(const Counts& totals) {
  constexpr Count kExpected[] = {Count::kRetransmittedPackets,
                                 Count::kAckTimeouts,
                                 Count::kDuplicateRequests,
                                 Count::kOutOfSequence,
                                 Count::kImpliedNak,
                                 Count::kRnrNakSent,
                                 Count::kRnrNakReceived,
                                 Count::kSequenceNakSent,
                                 Count::kSequenceNakReceived,
                                 Count::kInvalidNakSent,
                                 Count::kAccessNakSent,
                                 Count::kInvalidNakReceived,
                                 Count::kAccessNakReceived,
                                 Count::kAcksSent,
                                 Count::kAcksReceived,
                                 Count::kGhostAck,
                                 Count::kReceiveDropped,
                                 Count::kRateNakSent,
                                 Count::kRateDropped,
                                 Count::kBadLength,
                                 Count::kProbes,
                                 Count::kSparedPackets};
  bool good = true;
  for (const Count c : kExpected) {
    const std::uint64_t n = totals[static_cast<unsigned>(c)];
    std::printf("event %2u: %llu\n", static_cast<unsigned>(c), static_cast<unsigned long long>(n));
    good = good && n > 0;
  }
  if (!good) std::printf("some event never happened\n");
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t first = 1;
  std::uint64_t count = 3000;
  const char* goodput = nullptr;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::uint64_t value = std::strtoull(argv[i + 1], nullptr, 0);
    if (std::strcmp(argv[i], "--count") == 0) count = value;
    if (std::strcmp(argv[i], "--first") == 0) first = value;
    if (std::strcmp(argv[i], "--goodput") == 0) goodput = argv[i + 1];
    if (std::strcmp(argv[i], "--seed") == 0) {
      first = value;
      count = 1;
    }
  }
  constexpr std::uint64_t kMostFailures = 20;
  Counts totals{};
  CmCounts cm_totals{};
  std::uint64_t failures = 0;
  for (std::uint64_t seed = first; seed < first + count && failures < kMostFailures; ++seed)
    failures += !run_seed(seed, totals, cm_totals);
  std::printf("%llu seeds, %llu failures\n", static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(failures));
  bool good = failures == 0;
  if (count >= 1000) {
    good &= check_coverage(totals);
    good &= check_cm_coverage(cm_totals);
  }
  if (goodput != nullptr) good &= check_goodput(goodput);
  return good ? 0 : 1;
}
