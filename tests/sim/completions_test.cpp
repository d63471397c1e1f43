// SPDX-License-Identifier: Apache-2.0

// The order of stores around a completion (qp_durable.hpp), checked for every run: the engine ends
// at each of its stores, also while it takes over, and the program polls at any time between. The
// program gets each completion once and in order. The code under test is that of the engine.
//
// A state is the memory that outlives an engine. From each state that was found, an engine runs to
// each of its stores; after each of them the program may have polled some or all completions. That
// leads to new states, until there is none.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "daemon/engine/records/qp_durable.hpp"
#include "daemon/tenant_memory/completion_ring.hpp"
#include "tests/sim/store_trap.hpp"
#include "tests/unit/engine/fixture/process.hpp"

namespace softhca::sim {
namespace {

using engine::QpDurable;

constexpr std::uint32_t kEntries = 2;
constexpr std::uint32_t kCompletions = 5;  ///< more than two laps
constexpr std::uint32_t kQpn = 17;
constexpr std::uint32_t kMtu = 1024;

class Completions : public ::testing::TestWithParam<bool> {
 protected:
  struct Shared {
    QpDurable record;
    alignas(64) std::byte ring[shm::CompletionRing::bytes_for(kEntries)];
  };

  Shared& shared() { return *reinterpret_cast<Shared*>(memory_.base()); }
  abi::CompletionRingHeader& header() {
    return *reinterpret_cast<abi::CompletionRingHeader*>(shared().ring);
  }
  const abi::CompletionElement& element(std::uint32_t counter) {
    return reinterpret_cast<abi::CompletionElement*>(
        shared().ring + sizeof(abi::CompletionRingHeader))[counter % kEntries];
  }
  bool is_there(std::uint32_t counter) {
    return (element(counter).owner & abi::kPhaseBit) == abi::phase_of(counter, kEntries);
  }
  std::string bytes() { return {reinterpret_cast<char*>(memory_.base()), sizeof(Shared)}; }
  void restore(const std::string& state) {
    std::memcpy(memory_.base(), state.data(), state.size());
  }

  bool receives() const { return GetParam(); }
  /// Returns how many completions the record counts.
  std::uint32_t counted() {
    if (!receives()) return shared().record.done();
    return shared().record.taken_position(kMtu).expected.value();
  }

  /// An engine takes over, and completes what the program has room for.
  void run_engine() {
    QpDurable& record = shared().record;
    shm::CompletionRing ring(shared().ring, kEntries);
    resumes_ = ring.resume();
    shm::Completion completion{
        .qpn = kQpn, .is_receive = receives() ? abi::kCompletionOfReceive : std::uint8_t{0}};
    if ((record.sent_pushes & engine::kPushes) != 0) {
      completion.index = record.sent_index;
      record.settle_sent(ring.has(record.sent_counter, completion));
    }
    if ((record.taken_pushes & engine::kPushes) != 0) {
      completion.index = record.taken_index;
      record.settle_taken(ring.has(record.taken_counter, completion));
    }
    const std::uint32_t end = std::min(kCompletions, header().consumer + kEntries);
    for (std::uint32_t next = counted(); next < end; ++next) {
      completion.index = next;
      const engine::PushPlace place{ring.next_counter(), next};
      if (receives()) {
        record.begin_taken(place, QpDurable::taken_word({.expected = Psn(next + 1)}),
                           (next + 1) % 2 != 0);
        ring.push(completion);
        record.end_taken(next + 1);
      } else {
        const std::uint64_t word = QpDurable::sent_word(next + 1, {});
        record.begin_sent(place, word, false);
        ring.push(completion);
        record.end_sent(word);
      }
    }
  }

  /// The program polls one completion. False: there is none.
  bool poll() {
    const std::uint32_t consumer = header().consumer;
    if (!is_there(consumer)) return false;
    EXPECT_EQ(element(consumer).index, consumer) << "lost, repeated or out of order";
    EXPECT_EQ(element(consumer).qpn, kQpn);
    header().consumer = consumer + 1;
    return true;
  }

  engine::RingMemory memory_{sizeof(Shared)};
  bool resumes_ = false;
};

TEST_P(Completions, EngineEndsAtAnyStore_EachCompletionComesOnce) {
  if constexpr (!StoreTrap::kAvailable) {
    GTEST_SKIP() << "needs the single step of x86-64";
  }
  shared().record.posted_end = kCompletions;
  std::set<std::string> found;
  std::vector<std::string> open;
  const auto add = [&](const std::string& state) {
    if (found.insert(state).second) open.push_back(state);
  };
  add(bytes());
  std::uint64_t points = 0;
  std::uint32_t polled = 0;
  while (!open.empty() && !HasFailure()) {
    const std::string state = std::move(open.back());
    open.pop_back();
    bool ended = true;
    for (std::uint64_t store = 1; ended && !HasFailure(); ++store) {
      restore(state);
      StoreTrap trap;
      trap.watch(memory_.pages());
      ended = trap.run([this] { run_engine(); }, [&](std::uint64_t now) { return now == store; });
      ++points;
      ASSERT_TRUE(resumes_);
      if (!ended) {
        EXPECT_EQ(counted(), std::min(kCompletions, header().consumer + kEntries));
        if (receives()) {
          EXPECT_EQ(shared().record.received, counted());
        }
      }
      do {
        add(bytes());
      } while (poll());
    }
    polled = std::max<std::uint32_t>(polled, header().consumer);
  }
  EXPECT_EQ(polled, kCompletions);
  std::printf("%zu states, %llu ends\n", found.size(), static_cast<unsigned long long>(points));
}

INSTANTIATE_TEST_SUITE_P(, Completions, ::testing::Bool(),
                         [](const auto& one) { return one.param ? "Receives" : "Sends"; });

}  // namespace
}  // namespace softhca::sim
