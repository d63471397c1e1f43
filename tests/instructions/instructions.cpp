// SPDX-License-Identifier: Apache-2.0

// Gives an engine in virtual time the same commands again and again, for callgrind to count what
// poll_measured() executes (tests/instructions/count.py).
//
// usage: instructions CASE          measures kCommands, after as many that do not count
//        instructions cases         prints the names of cases
//        instructions compiler      prints what decides on figures besides the code
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {

/// What it executes is counted.
[[gnu::noinline]] bool poll_measured(Engine& engine, Time now) {
  const bool worked = engine.poll(now);
  asm volatile("" ::: "memory");  // not a tail call, which would leave this function
  return worked;
}

namespace {

using abi::Opcode;

/// By then the engine's turns are as long as they become.
constexpr unsigned kCommands = 8000;

enum class Side { kA, kB };

struct Case {
  std::string_view name;
  Way way;
  Process::Way announced;
  unsigned burst;     ///< commands
  unsigned signaled;  ///< of a burst, the last ones
  Opcode opcode;
  std::size_t bytes;
  Side measured;
};

constexpr Case kCases[] = {
    {"local-write-vcb", Way::kLocal, Process::Way::kVcb, 4, 4, Opcode::kRdmaWrite, 64, Side::kA},
    {"local-write-doorbell", Way::kLocal, Process::Way::kDoorbell, 16, 16, Opcode::kRdmaWrite, 64,
     Side::kA},
    {"local-write-unsignaled", Way::kLocal, Process::Way::kDoorbell, 16, 1, Opcode::kRdmaWrite, 64,
     Side::kA},
    {"local-send", Way::kLocal, Process::Way::kDoorbell, 16, 16, Opcode::kSend, 64, Side::kA},
    {"wire-write-sender", Way::kWire, Process::Way::kDoorbell, 16, 16, Opcode::kRdmaWrite, 8,
     Side::kA},
    {"wire-write-receiver", Way::kWire, Process::Way::kDoorbell, 16, 16, Opcode::kRdmaWrite, 8,
     Side::kB},
};

void poll(Engine& engine, Time now, bool measured) {
  if (measured)
    poll_measured(engine, now);
  else
    engine.poll(now);
}

/// `counts`: polls of the side that is measured count.
void burst(Pair& pair, const Case& what, Buffer& from, Buffer& to, bool counts) {
  for (unsigned i = 0; i < what.burst; ++i) {
    Work work;
    work.opcode = what.opcode;
    work.flags = i + what.signaled >= what.burst ? abi::kCommandSignaled : 0;
    work.sge = {from.part(0, what.bytes)};
    work.remote_addr = to.addr();
    work.rkey = to.key;
    if (what.opcode == Opcode::kSend) pair.b->post_receive(*pair.qb, {to.part(0, what.bytes)});
    if (what.announced == Process::Way::kVcb)
      pair.a->post(*pair.qa, work);
    else
      pair.a->write_command(*pair.qa, work);
  }
  if (what.announced == Process::Way::kDoorbell)
    pair.a->ring(pair.qa->qp.qpn.value, pair.qa->sequence);
  Engine& a = pair.adapters.front()->engine;
  Engine& b = pair.adapters.back()->engine;
  for (unsigned done = 0, polls = 0; done < what.signaled; ++polls) {
    if (polls == 1000) std::abort();
    pair.now += std::chrono::microseconds(1);
    poll(a, pair.now, counts && what.measured == Side::kA);
    if (&b != &a) poll(b, pair.now, counts && what.measured == Side::kB);
    while (const auto completed = pair.ca->poll()) {
      if (completed->status != Status::kSuccess) std::abort();
      ++done;
    }
  }
  while (pair.cb->poll()) continue;
}

int run(std::string_view name) {
  for (const Case& what : kCases) {
    if (what.name != name) continue;
    Pair pair(what.way);
    pair.connect_pair({.mtu = 4096});
    Buffer& from = pair.a->make_buffer(4096);
    Buffer& to = pair.b->make_buffer(4096);
    for (unsigned done = 0; done < 2 * kCommands; done += what.burst) {
      from.fill(done);
      burst(pair, what, from, to, done >= kCommands);
      if (std::memcmp(from.data(), to.data(), what.bytes) != 0) std::abort();
    }
    std::printf("%u commands\n", kCommands);
    return EXIT_SUCCESS;
  }
  return 2;
}

int describe(std::string_view what) {
  if (what == "cases") {
    for (const Case& each : kCases) std::puts(each.name.data());
    return EXIT_SUCCESS;
  }
  if (what != "compiler") return 2;
#ifdef __clang__
  std::printf("clang %s", __clang_version__);
#else
  std::printf("gcc %s", __VERSION__);
#endif
  std::printf(", %s\n", INSTRUCTIONS_OPTIONS);
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace softhca::engine

int main(int argc, char** argv) {
  using namespace softhca::engine;
  if (argc != 2) return 2;
  const int described = describe(argv[1]);
  return described != 2 ? described : run(argv[1]);
}
