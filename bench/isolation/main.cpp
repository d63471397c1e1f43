// SPDX-License-Identifier: Apache-2.0

// softhca-aggressor: a tenant that uses as much as it can of one resource, until it is killed. It
// prints "running" once it has begun.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <string>

#include "bench/isolation/attacks.hpp"
#include "bench/isolation/loop.hpp"
#include "bench/verbs/queue_pair.hpp"

namespace softhca::bench {
namespace {

[[noreturn]] void flood(const Device& device, const Demand& demand) {
  Loop loop(device, demand);
  say_running();
  loop.flood();
}

/// Registers memory, and makes, connects, uses once and destroys queue pairs, forever.
[[noreturn]] void churn(const Device& device, const Demand& demand) {
  say_running();
  for (;;) {
    Loop loop(device, demand);
    for (std::uint32_t qp = 0; qp < demand.queue_pairs; ++qp) loop.post(qp, IBV_WR_RDMA_WRITE);
  }
}

/// Sends messages for which there is never a receive; the retries continue forever at the shortest
/// interval.
[[noreturn]] void storm(const Device& device, const Demand& demand) {
  Loop loop(device, demand);
  for (std::uint32_t qp = 0; qp < demand.queue_pairs; ++qp) loop.post(qp, IBV_WR_SEND);
  say_running();
  for (;;) pause();
}

/// As storm(), with all send queues full.
[[noreturn]] void stall(const Device& device, const Demand& demand) {
  Loop loop(device, demand);
  for (std::uint32_t qp = 0; qp < demand.queue_pairs; ++qp) loop.fill(qp, IBV_WR_SEND);
  say_running();
  for (;;) pause();
}

/// Posts a short write now and then.
[[noreturn]] void trickle(const Device& device, const Demand& demand) {
  Loop loop(device, demand);
  say_running();
  loop.trickle(std::chrono::milliseconds(33));
}

struct Mode {
  const char* name;
  void (*run)(const Device&, const Demand&);
  Demand demand;
};

constexpr Mode kModes[] = {
    {"hog", flood, {1, 1 << 20, 64, 4}},
    {"doorbells", flood, {16, 64, 1024, 64}},
    {"churn", churn, {4, 1 << 20, 4, 4}},
    {"rnr", storm, {64, 64, 4, 4}},
    {"stalled", stall, {64, 64, 256, 256}},
    {"rare", trickle, {1, 16, 1, 1}},
    {"overrun", overrun, {4, 64, 16, 1}},
    {"neighbours", ask_for_neighbours, {8, 64, 64, 1}},
    {"process-memory", lock_memory, {1, 4096, 64, 4}},
    {"reached-memory", write_unshared, {1, 64, 32, 1}},
};

int run(int argc, char** argv) {
  std::string device_name, mode_name = "hog";
  int gid_index = 0;
  Demand asked{0, 0, 0, 0};

  CLI::App app("A tenant that asks for as much as it can of one thing, until it is ended");
  app.add_option("-d,--device", device_name, "name of the device (default: the first)");
  app.add_option("-g,--gid", gid_index, "index of the GID")->capture_default_str();
  app.add_option(
         "--mode", mode_name,
         "hog: long writes; doorbells: long chains of short writes; churn: memory and queue "
         "pairs come and go; rnr: sends without receives; stalled: full send queues of them; "
         "rare: a short write now and then; overrun: completion queues overflow; neighbours: "
         "datagrams to addresses without a host; process-memory: writes in an address space that "
         "is always locked; "
         "reached-memory: short writes in memory that is not shared")
      ->check(CLI::IsMember({"hog", "doorbells", "churn", "rnr", "stalled", "rare", "overrun",
                             "neighbours", "process-memory", "reached-memory"}));
  app.add_option("--qps", asked.queue_pairs, "queue pairs (default: as the mode has it)")
      ->check(CLI::Range(1u, 4096u));
  app.add_option("--size", asked.size, "bytes of a message, as 64K (likewise)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(1u, 1u << 30));
  app.add_option("--depth", asked.depth, "messages of a queue pair in flight (likewise)")
      ->check(CLI::Range(1u, 16384u));
  app.add_option("--chain", asked.chain, "messages of one post (likewise)")
      ->check(CLI::Range(1u, 16384u));
  CLI11_PARSE(app, argc, argv);

  for (const Mode& mode : kModes) {
    if (mode.name != mode_name) continue;
    Demand demand = mode.demand;
    if (asked.queue_pairs) demand.queue_pairs = asked.queue_pairs;
    if (asked.size) demand.size = asked.size;
    if (asked.depth) demand.depth = asked.depth;
    if (asked.chain) demand.chain = asked.chain;
    if (demand.chain > demand.depth) die("--chain is longer than --depth");
    const Device device(device_name, gid_index);
    mode.run(device, demand);
  }
  return 1;  // not reached: the option parser accepts only these names, and no mode ends
}

}  // namespace
}  // namespace softhca::bench

int main(int argc, char** argv) { return softhca::bench::run(argc, argv); }
