// Seeded simulation of two adapters over a bad link in virtual time.
//
//   sim [--count N] [--seed N] [--first N]
//
// runs N worlds (default 3000) of the seeds from --first on; --seed runs one, and says more. On a
// failure the seed is printed; the same seed fails the same way again.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/sim/rc_world.hpp"

namespace {

using namespace softhca::sim;

bool run_seed(std::uint64_t seed) {
  Random random(seed);
  const RcSettings settings = random_rc_settings(random);
  try {
    run_rc(settings, random.next());
    return true;
  } catch (const Failure& f) {
    std::printf("seed %llu failed: %s\n", static_cast<unsigned long long>(seed), f.what());
    return false;
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t first = 1;
  std::uint64_t count = 3000;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::uint64_t value = std::strtoull(argv[i + 1], nullptr, 0);
    if (std::strcmp(argv[i], "--count") == 0) count = value;
    if (std::strcmp(argv[i], "--first") == 0) first = value;
    if (std::strcmp(argv[i], "--seed") == 0) {
      first = value;
      count = 1;
    }
  }
  std::uint64_t failures = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed)
    if (!run_seed(seed) && ++failures == 20) break;
  std::printf("%llu seeds, %llu failures\n", static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(failures));
  return failures == 0 ? 0 : 1;
}
