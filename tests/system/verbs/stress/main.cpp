// SPDX-License-Identifier: Apache-2.0

// Threads of one process make, change, reset, resize and destroy everything there is, and use it
// meanwhile; all that comes of it is checked against a model.
//
// usage: stress SEED SECONDS DEVICE [OTHER-DEVICE]
// With two devices, of two hosts, connections go from one to the other. What each thread does
// follows from SEED. When all is over and destroyed it says so, keeps the devices open and waits
// for a line of its input.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/system/verbs/stress/playground.hpp"
#include "tests/system/verbs/stress/worker.hpp"

namespace {

using namespace softhca::stress;

constexpr unsigned kLinkWorkers = 4;
constexpr unsigned kDatagramWorkers = 2;
constexpr unsigned kRegionWorkers = 2;
constexpr unsigned kStartWorkers = 2;

struct Thread {
  std::string name;
  std::unique_ptr<Worker> worker;
};

std::vector<Thread> make_workers(Station& first, Station& second, const Playground& ground,
                                 const std::string& name) {
  const bool hosts = &first != &second;
  std::vector<Thread> all;
  const auto stage = [&](unsigned i) {
    return i % 2 == 0 ? Stage{first, second, hosts} : Stage{second, first, hosts};
  };
  for (unsigned i = 0; i < kLinkWorkers; ++i)
    all.push_back({"links" + std::to_string(i), make_link_worker(stage(i))});
  for (unsigned i = 0; i < kDatagramWorkers; ++i)
    all.push_back({"datagrams" + std::to_string(i), make_datagram_worker(stage(i), i + 1)});
  for (unsigned i = 0; i < ground.owners(); ++i)
    all.push_back({"regions" + std::to_string(i), make_region_worker(first, ground, i)});
  all.push_back({"crowd", make_crowd_worker(first)});
  for (unsigned i = 0; i < kStartWorkers; ++i)
    all.push_back({"starts" + std::to_string(i), make_start_worker(first.device, name)});
  return all;
}

void run(std::vector<Thread> workers, std::uint64_t seed, std::chrono::seconds time) {
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (const Thread& thread : workers)
    threads.emplace_back([&] { thread.worker->run(thread.name, seed, over); });
  std::this_thread::sleep_for(time);
  over = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5)
    return std::fprintf(stderr, "usage: stress SEED SECONDS DEVICE [OTHER-DEVICE]\n"), 2;
  const std::uint64_t seed = std::strtoull(argv[1], nullptr, 10);
  const std::chrono::seconds time{std::atoi(argv[2])};
  std::printf("seed %" PRIu64 "\n", seed);
  const Device device(argv[3]);
  const auto other = argc == 5 ? std::make_unique<Device>(argv[4]) : nullptr;
  {
    const Playground ground(kRegionWorkers);
    Station first(device);
    const auto second = other ? std::make_unique<Station>(*other) : nullptr;
    run(make_workers(first, second ? *second : first, ground, argv[3]), seed, time);
  }
  std::puts("destroyed");
  std::fflush(stdout);
  std::getchar();
  return report() ? 0 : 1;
}
