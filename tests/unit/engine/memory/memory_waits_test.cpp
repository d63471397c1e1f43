// SPDX-License-Identifier: Apache-2.0

// Steps of queue pairs that reach their memory through the memory proxy. The engine goes on while
// the proxy makes an access.
#include "daemon/engine/memory/memory_waits.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <vector>

#include "tests/unit/engine/fixture/pair.hpp"
#include "tests/unit/engine/fixture/proxy.hpp"

namespace softhca::engine {
namespace {

using Side = MemoryWaits::Side;

class MemoryWaitsTest : public ::testing::Test {
 protected:
  MemoryWaitsTest() { proxy.waits.open(); }

  /// Takes a step of the queue pair in this slot once.
  Verdict take(std::uint32_t slot, std::uint64_t id, const std::function<Verdict()>& step) {
    const MemoryWaits::Step begun(proxy.waits, slot, Side::kSend, id);
    return step();
  }
  /// Waits until the queue pair is woken.
  void await(std::uint32_t slot) {
    for (bool woken = false; !woken; ::usleep(10))
      proxy.waits.release([&](std::uint32_t ready) { woken = woken || ready == slot; });
  }
  /// Takes it until it is done. Returns how often it was busy.
  unsigned finish(std::uint32_t slot, std::uint64_t id, const std::function<Verdict()>& step,
                  Verdict expected = Verdict::kOk) {
    for (unsigned busy = 0;; ++busy) {
      const Verdict verdict = take(slot, id, step);
      EXPECT_EQ(proxy.waits.waits(slot, Side::kSend), verdict == Verdict::kBusy);
      if (verdict != Verdict::kBusy) {
        EXPECT_EQ(verdict, expected);
        return busy;
      }
      await(slot);
    }
  }

  Proxy proxy;
  std::shared_ptr<memory::ProcessMemory> process = proxy.add();
  std::uint64_t there = 7;
};

TEST_F(MemoryWaitsTest, StepIsBusyUntilItsAccessIsDone_AndMadeOnce) {
  std::uint64_t word = 0;
  const auto read = [&] { return move(*process, false, &word, &there, sizeof word); };
  EXPECT_EQ(finish(0, 1, read), 1u);
  EXPECT_EQ(word, 7u);
  EXPECT_EQ(proxy.counters.process_accesses.value(), 1u);
  EXPECT_EQ(proxy.waited, Duration::zero()) << "the engine has not waited";
}

TEST_F(MemoryWaitsTest, StepOfSeveralAccesses_EachIsMadeOnce) {
  std::vector<std::uint8_t> from(ProxyArea::kBytes + 100), to(from.size()), between(from.size());
  std::iota(from.begin(), from.end(), std::uint8_t{3});
  const auto copy = [&] {
    const Verdict read = move(*process, false, between.data(), from.data(), from.size());
    return read == Verdict::kOk ? move(*process, true, between.data(), to.data(), to.size()) : read;
  };
  EXPECT_EQ(finish(0, 1, copy), 4u);
  EXPECT_EQ(to, from);
  EXPECT_EQ(proxy.counters.process_accesses.value(), 4u);
}

/// Another message of the same queue pair, in the same memory.
TEST_F(MemoryWaitsTest, WhatWasReadForOneStep_IsNotForAnother) {
  std::uint64_t word = 0;
  const auto read = [&] { return move(*process, false, &word, &there, sizeof word); };
  EXPECT_EQ(take(0, 1, read), Verdict::kBusy);
  await(0);
  there = 8;
  EXPECT_EQ(finish(0, 2, read), 1u);
  EXPECT_EQ(word, 8u);
}

TEST_F(MemoryWaitsTest, AccessesAreMadeInTheirOrder) {
  std::uint64_t one = 1, two = 2, word = 0;
  proxy.stop();
  EXPECT_EQ(take(0, 1, [&] { return move(*process, true, &one, &there, 8); }), Verdict::kBusy);
  EXPECT_EQ(take(1, 1, [&] { return move(*process, true, &two, &there, 8); }), Verdict::kBusy);
  const auto read = [&] { return move(*process, false, &word, &there, 8); };
  EXPECT_EQ(take(2, 1, read), Verdict::kBusy);
  EXPECT_EQ(there, 7u);
  proxy.go_on();
  EXPECT_EQ(finish(2, 1, read), 0u + 1u);
  EXPECT_EQ(word, 2u);
  EXPECT_EQ(there, 2u);
}

TEST_F(MemoryWaitsTest, MoreStepsThanThereIsRoomFor_AllAreTaken) {
  constexpr std::uint32_t kSteps = 3 * ProxyArea::kPlaces;
  std::vector<std::uint64_t> from(kSteps), words(kSteps);
  std::iota(from.begin(), from.end(), 100u);
  const auto step = [&](std::uint32_t i) {
    return take(i, 1, [&, i] { return move(*process, false, &words[i], &from[i], 8); });
  };
  proxy.stop();
  for (std::uint32_t i = 0; i < kSteps; ++i) EXPECT_EQ(step(i), Verdict::kBusy);
  EXPECT_LT(proxy.counters.process_accesses.value(), ProxyArea::kPlaces);
  proxy.go_on();
  for (std::uint32_t done = 0; done < kSteps; ::usleep(10))
    proxy.waits.release([&](std::uint32_t slot) { done += step(slot) == Verdict::kOk ? 1 : 0; });
  EXPECT_EQ(words, from);
}

TEST_F(MemoryWaitsTest, SettledMemory_IsNotWrittenAnyMore) {
  std::uint64_t word = 9;
  EXPECT_EQ(take(0, 1, [&] { return move(*process, true, &word, &there, 8); }), Verdict::kBusy);
  proxy.waits.settle(proxy.counters);
  EXPECT_EQ(there, 9u);
  EXPECT_FALSE(proxy.proxy->writes());
  EXPECT_GT(proxy.waited, Duration::zero());
}

TEST_F(MemoryWaitsTest, ForgottenStep_LeavesItsPlaceToOthers) {
  std::uint64_t word = 0;
  const auto read = [&] { return move(*process, false, &word, &there, sizeof word); };
  Tenant tenant;
  for (std::uint64_t i = 0; i < 3 * ProxyArea::kPlaces; ++i) {
    EXPECT_EQ(take(0, i, read), Verdict::kBusy);
    proxy.waits.forget(tenant, 0);
    EXPECT_FALSE(proxy.waits.waits(0, Side::kSend));
    proxy.waits.settle(proxy.counters, true);
  }
  EXPECT_EQ(finish(1, 1, read), 1u);
}

TEST_F(MemoryWaitsTest, AtomicOfAStep_IsMadeOnce) {
  std::uint64_t original = 0, word = 0, before = 5;
  const auto step = [&] {
    const Verdict added = process->atomic(reinterpret_cast<std::uint64_t>(&there),
                                          memory::AtomicOp::kFetchAdd, 10, 0, original);
    return added == Verdict::kOk ? move(*process, false, &word, &before, 8) : added;
  };
  EXPECT_EQ(take(0, 1, step), Verdict::kBusy);
  await(0);
  proxy.waits.end_turn(0);  // without having been repeated
  EXPECT_EQ(finish(0, 1, step), 1u);
  EXPECT_EQ(original, 7u);
  EXPECT_EQ(there, 17u);
  EXPECT_EQ(word, 5u);
}

TEST_F(MemoryWaitsTest, FaultsAreAVerdict) {
  std::uint64_t word = 0;
  finish(
      0, 1, [&] { return move(*process, false, &word, nullptr, 8); }, Verdict::kLocalProtection);
}

TEST(MemoryWaits, StepsWhoseAccessDoesNotComeBack_Fail) {
  AccessBounds bounds;
  bounds.start = std::chrono::milliseconds(5);
  Proxy proxy(bounds);
  proxy.waits.open();
  const auto process = proxy.add();
  std::uint64_t word = 3, there = 7;
  const auto take = [&](std::uint32_t slot) {
    const MemoryWaits::Step step(proxy.waits, slot, Side::kReceive, 1);
    return move(*process, false, &word, &there, 8);
  };
  proxy.stop();
  for (std::uint32_t slot : {0u, 1u}) EXPECT_EQ(take(slot), Verdict::kBusy);
  for (unsigned failed = 0; failed < 2; ::usleep(10))
    proxy.waits.release([&](std::uint32_t slot) {
      EXPECT_EQ(take(slot), Verdict::kLocalProtection);
      ++failed;
    });
  EXPECT_TRUE(proxy.proxy->is_late());
  EXPECT_FALSE(proxy.waits.has_work()) << "it keeps the engine from sleeping";
  EXPECT_EQ(proxy.counters.late_accesses.value(), 1u);
  proxy.go_on();
  while (proxy.proxy->is_late()) ::usleep(100);
  EXPECT_EQ(take(0), Verdict::kBusy) << "it is asked again";
}

TEST(MemoryWaits, ManyStepsWaitForRoom_AFewAreWokenInEachPollStep) {
  constexpr std::uint32_t kSteps = 600;
  MemoryCounters counters;
  MemoryWaits waits(kSteps);
  waits.open();
  Proxy proxy(&counters, &waits);
  const auto process = proxy.add();
  std::vector<std::uint64_t> from(kSteps), words(kSteps);
  std::iota(from.begin(), from.end(), 100u);
  const auto take = [&](std::uint32_t i) {
    const MemoryWaits::Step step(waits, i, Side::kSend, 1);
    return move(*process, false, &words[i], &from[i], 8);
  };
  proxy.stop();
  for (std::uint32_t i = 0; i < kSteps; ++i) EXPECT_EQ(take(i), Verdict::kBusy);
  proxy.go_on();
  std::uint32_t most = 0;
  for (std::uint32_t done = 0; done < kSteps; ::usleep(10)) {
    std::uint32_t woken = 0;
    waits.release([&](std::uint32_t slot) {
      ++woken;
      done += take(slot) == Verdict::kOk ? 1 : 0;
    });
    most = std::max(most, woken);
  }
  EXPECT_EQ(words, from);
  EXPECT_LT(most, 64u);
  EXPECT_FALSE(waits.has_work());
}

// --- an engine

/// Tenant b's memory is reached by a process, tenant a's is shared.
class ReachedMemory : public BothWays {
 protected:
  ReachedMemory() : pair(GetParam()) {
    b.adapter.engine.memory().waits().open();
    pair.connect_pair({.timeout = 0});
    pair.run_for(std::chrono::milliseconds(1));
    near.fill(1);
  }
  ~ReachedMemory() {
    pair.expect_idle();
    for (const std::uint32_t key : keys_) b.adapter.engine.keys().erase(key);
    pair.steps(2);
  }

  std::uint32_t reach(std::uint64_t addr, std::size_t bytes) {
    memory::RegionSpec spec;
    spec.tenant = b.tenant.id;
    spec.pd = b.pd;
    spec.access =
        memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic;
    spec.addr = spec.iova = addr;
    spec.length = bytes;
    spec.extents = {{addr, bytes, nullptr}};
    spec.process = process;
    auto region = memory::Region::make(std::move(spec));
    keys_.push_back((*b.adapter.engine.keys().insert(std::move(*region)))->key());
    return keys_.back();
  }
  Buffer& make_reached(std::size_t bytes) {
    Buffer& buffer = b.make_buffer(bytes);
    buffer.key = reach(buffer.addr(), bytes);
    return buffer;
  }
  /// Steps in real time, since the process is real.
  bool run(const std::function<bool()>& done) {
    for (int i = 0; i < 200'000; ++i) {
      if (done()) return true;
      pair.steps(4);
      ::usleep(20);
    }
    return false;
  }
  Status status(TestCq& cq) {
    std::optional<Completed> got;
    EXPECT_TRUE(run([&] { return (got = cq.poll()).has_value(); }));
    return got ? got->status : static_cast<Status>(255);
  }

  static constexpr std::size_t kBytes = 20'000;  ///< several packets
  std::vector<std::uint32_t> keys_;
  Pair pair;
  Process& a = *pair.a;
  Process& b = *pair.b;
  Proxy proxy{&b.tenant.counters.memory, &b.adapter.engine.memory().waits()};
  std::shared_ptr<memory::ProcessMemory> process = proxy.add();
  Buffer& near = a.make_buffer(kBytes);
  Buffer& far = make_reached(kBytes);
};

TEST_P(ReachedMemory, Write) {
  a.post(*pair.qa, {.opcode = abi::Opcode::kRdmaWrite,
                    .sge = {near.all()},
                    .remote_addr = far.addr(),
                    .rkey = far.key});
  EXPECT_EQ(status(*pair.ca), Status::kSuccess);
  EXPECT_TRUE(far.equals(near));
  EXPECT_EQ(proxy.waited, Duration::zero()) << "the engine has waited";
}

TEST_P(ReachedMemory, Read) {
  far.fill(2);
  a.post(*pair.qa, {.opcode = abi::Opcode::kRdmaRead,
                    .sge = {near.all()},
                    .remote_addr = far.addr(),
                    .rkey = far.key});
  EXPECT_EQ(status(*pair.ca), Status::kSuccess);
  EXPECT_TRUE(near.equals(far));
  EXPECT_EQ(proxy.waited, Duration::zero());
}

/// The peer's memory is reached through the proxy: sends arrive in it, and it is the source of
/// sends and reads in the other direction.
TEST_P(ReachedMemory, SendsBothWays) {
  Buffer& back = a.make_buffer(kBytes);
  for (unsigned round = 0; round < 5; ++round) {
    near.fill(round);
    b.post_receive(*pair.qb, {far.part(0, 100), far.part(100, kBytes - 100)});
    a.post(*pair.qa, {.sge = {near.all()}});
    EXPECT_EQ(status(*pair.ca), Status::kSuccess);
    EXPECT_EQ(status(*pair.cb), Status::kSuccess);
    EXPECT_TRUE(far.equals(near));
    a.post_receive(*pair.qa, {back.all()});
    b.post(*pair.qb, {.sge = {far.all()}});
    EXPECT_EQ(status(*pair.cb), Status::kSuccess);
    EXPECT_EQ(status(*pair.ca), Status::kSuccess);
    EXPECT_TRUE(back.equals(far));
  }
  near.fill(9);
  b.post(*pair.qb, {.opcode = abi::Opcode::kRdmaRead,
                    .sge = {far.all()},
                    .remote_addr = near.addr(),
                    .rkey = near.key});
  EXPECT_EQ(status(*pair.cb), Status::kSuccess);
  EXPECT_TRUE(far.equals(near));
  EXPECT_EQ(proxy.waited, Duration::zero());
}

TEST_P(ReachedMemory, AtomicsAreExecutedOnce) {
  std::memset(far.data(), 0, 8);
  for (std::uint64_t i = 0; i < 10; ++i) {
    a.post(*pair.qa, {.opcode = abi::Opcode::kFetchAdd,
                      .sge = {near.part(0, 8)},
                      .remote_addr = far.addr(),
                      .rkey = far.key,
                      .compare_add = 3});
    EXPECT_EQ(status(*pair.ca), Status::kSuccess);
    std::uint64_t original = 0;
    std::memcpy(&original, near.data(), 8);
    EXPECT_EQ(original, 3 * i);
  }
  EXPECT_EQ(proxy.waited, Duration::zero());
}

TEST_P(ReachedMemory, MemoryThatIsNotThere_FailsTheMessage) {
  constexpr std::uint64_t kNowhere = 4096;
  const std::uint32_t key = reach(kNowhere, 64);
  a.post(*pair.qa, {.opcode = abi::Opcode::kRdmaWrite,
                    .sge = {near.part(0, 64)},
                    .remote_addr = kNowhere,
                    .rkey = key});
  EXPECT_EQ(status(*pair.ca), Status::kRemoteAccessError);
}

/// Another queue pair of the same peer, and another tenant, are served while an access is under
/// way, and the completions of the queue pair come in order.
TEST_P(ReachedMemory, OthersAreServedMeanwhile) {
  TestCq& cq = a.make_cq();
  TestQp& qa = a.make_qp(cq, cq);
  TestCq& far_cq = b.make_cq();
  TestQp& qb = b.make_qp(far_cq, far_cq);
  connect(a, qa, b, qb, {.timeout = 0});
  Buffer& shared = b.make_buffer(64);
  proxy.stop();
  const auto write = [&](TestQp& qp, Buffer& to) {
    a.post(qp, {.opcode = abi::Opcode::kRdmaWrite,
                .sge = {near.part(0, 64)},
                .remote_addr = to.addr(),
                .rkey = to.key});
  };
  write(*pair.qa, far);
  write(*pair.qa, shared);
  pair.steps(50);
  for (int i = 0; i < 5; ++i) {
    write(qa, shared);
    EXPECT_EQ(status(cq), Status::kSuccess);
  }
  EXPECT_FALSE(pair.ca->poll()) << "its bytes are not there";
  proxy.go_on();
  EXPECT_EQ(status(*pair.ca), Status::kSuccess);
  EXPECT_EQ(std::memcmp(far.data(), near.data(), 64), 0);
  EXPECT_EQ(status(*pair.ca), Status::kSuccess);
  EXPECT_EQ(proxy.waited, Duration::zero());
}

/// The memory of a queue pair that has been reset, or of a key that has ended, is the program's.
TEST_P(ReachedMemory, NothingIsWrittenAfterAReset) {
  b.post_receive(*pair.qb, {far.part(0, 64)});
  a.post(*pair.qa, {.sge = {near.part(0, 64)}});
  EXPECT_TRUE(run([&] { return proxy.counters.process_accesses.value() != 0; }));
  b.reset(*pair.qb);
  EXPECT_FALSE(proxy.proxy->writes());
  std::memset(far.data(), 0, 64);
  pair.steps(50);
  ::usleep(1000);
  EXPECT_TRUE(
      std::all_of(far.data(), far.data() + 64, [](std::byte x) { return x == std::byte{0}; }));
  a.reset(*pair.qa);
}

class ReachedDatagrams : public ReachedMemory {
 protected:
  static constexpr std::uint32_t kQkey = 5;
  TestQp& make_datagrams(Process& of, TestCq& completions) {
    TestQp& qp = of.make_qp(completions, completions, {.type = QpType::kUd});
    bring_up_datagram(of, qp, kQkey);
    return qp;
  }
  void send(Process& of, TestQp& from, Buffer& buffer) {
    of.post(from, {.sge = {buffer.part(0, 100)},
                   .remote_qpn = to.qp.qpn.value,
                   .remote_qkey = kQkey,
                   .address_handle = of.make_ah(a.tenant.addresses.at(0).gid)});
  }

  TestCq& cq = a.make_cq();
  TestQp& to = make_datagrams(a, cq);
};

TEST_P(ReachedDatagrams, SenderWhoseMemoryIsBusy_HoldsNoReceiveOfItsPeer) {
  TestCq& slow_cq = b.make_cq();
  TestQp& slow = make_datagrams(b, slow_cq);
  TestCq& other_cq = b.make_cq();
  TestQp& other = make_datagrams(b, other_cq);
  Buffer& shared = b.make_buffer(100);
  Buffer& into = a.make_buffer(400);
  for (std::uint32_t i = 0; i < 2; ++i) a.post_receive(to, {into.part(200 * i, 200)});
  proxy.stop();
  send(b, slow, far);
  pair.steps(50);
  send(b, other, shared);
  EXPECT_EQ(status(other_cq), Status::kSuccess);
  EXPECT_EQ(status(cq), Status::kSuccess);
  EXPECT_FALSE(slow_cq.poll());
  proxy.go_on();
  EXPECT_EQ(status(slow_cq), Status::kSuccess);
  EXPECT_EQ(status(cq), Status::kSuccess);
  EXPECT_EQ(proxy.waited, Duration::zero());
}

INSTANTIATE_TEST_SUITE_P(Way, ReachedDatagrams, ::testing::Values(Way::kLocal), way_name);
INSTANTIATE_TEST_SUITE_P(Ways, ReachedMemory, ::testing::Values(Way::kLocal, Way::kWire), way_name);

}  // namespace
}  // namespace softhca::engine
