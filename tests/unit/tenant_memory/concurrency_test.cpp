// SPDX-License-Identifier: Apache-2.0

// A tenant thread against the engine's views, at full speed.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "daemon/tenant_memory/completion_ring.hpp"
#include "daemon/tenant_memory/receive_ring.hpp"
#include "daemon/tenant_memory/send_ring_overflow_buffer.hpp"
#include "daemon/tenant_memory/session_view.hpp"
#include "tests/emulated.hpp"
#include "tests/unit/tenant_memory/shared_area.hpp"

namespace softhca::shm {
namespace {

constexpr std::uint32_t kRounds = 200000;

TEST(Concurrency, EveryDoorbellArrivesInOrderAndNoWakeUpIsLost) {
  if (!stores_are_seen_before_loads()) GTEST_SKIP() << "the emulator loses wake-ups";
  const SharedArea area(abi::session_bytes(1));
  auto& header = area.at<abi::SessionHeader>(0);
  std::atomic<std::uint32_t> wakes = 0;  // plays the wake eventfd
  std::thread tenant([&] {
    for (std::uint32_t i = 0; i < kRounds; ++i) {
      while (i - header.doorbell_consumer.load(std::memory_order_acquire) >= abi::kDoorbellEntries)
        std::this_thread::yield();
      area.at<abi::Doorbell>(abi::kDoorbellOffset + i % abi::kDoorbellEntries * 8) = {i, ~i};
      header.doorbell_producer.store(i + 1, std::memory_order_seq_cst);
      if (header.parked.load(std::memory_order_seq_cst) == 1) ++wakes;
    }
  });
  SessionView view(area.base(), 1);
  std::uint32_t taken = 0;
  std::uint32_t disorder = 0;
  while (taken < kRounds) {
    abi::Doorbell doorbell;
    const Take result = view.next_doorbell(doorbell);
    if (result == Take::kTaken) {
      view.take_doorbell();
      if (doorbell.qpn != taken || doorbell.sequence != ~taken) ++disorder;
      ++taken;
      continue;
    }
    if (result == Take::kHostile) break;
    const std::uint32_t before = wakes;
    if (!view.park()) continue;
    // Parked: nothing but a wake-up may be waited for. A lost one hangs the test.
    while (wakes == before) std::this_thread::yield();
    view.unpark();
  }
  tenant.join();
  EXPECT_EQ(taken, kRounds);
  EXPECT_EQ(disorder, 0u);
}

TEST(Concurrency, CompletionsArriveWholeAndInOrder) {
  constexpr std::uint32_t kEntries = 64;
  const SharedArea area(64 + kEntries * 32);
  auto& header = area.at<abi::CompletionRingHeader>(0);
  std::uint32_t disorder = 0;
  std::thread tenant([&] {
    for (std::uint32_t i = 0; i < kRounds;) {
      auto& e = area.at<abi::CompletionElement>(64 + i % kEntries * 32);
      if ((e.owner.load(std::memory_order_acquire) & abi::kPhaseBit) !=
          abi::phase_of(i, kEntries)) {
        std::this_thread::yield();
        continue;
      }
      if (e.index != i || e.timestamp != i * 3ull) ++disorder;
      header.consumer.store(++i, std::memory_order_release);
    }
  });
  CompletionRing ring(area.base(), kEntries);
  Completion c;
  for (std::uint32_t i = 0; i < kRounds;) {
    c.index = i;
    c.timestamp = i * 3ull;
    if (ring.push(c))
      ++i;
    else
      std::this_thread::yield();
  }
  tenant.join();
  EXPECT_EQ(disorder, 0u);
}

/// A tenant that writes random bytes over everything it shares, as long as the object lives.
class Vandal {
 public:
  Vandal(const SharedArea& area, std::size_t bytes)
      : thread_([this, &area, bytes] {
          std::mt19937_64 random(7);
          while (!stop_.load(std::memory_order_relaxed)) {
            const std::size_t word = random() % (bytes / 8);
            area.at<std::atomic<std::uint64_t>>(word * 8).store(random() >> random() % 64,
                                                                std::memory_order_relaxed);
          }
        }) {}
  ~Vandal() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

TEST(Concurrency, RandomWritesNeverGetAnImpossibleValueThrough) {
  constexpr std::uint32_t kVcbs = 2;
  constexpr std::uint32_t kStride = abi::send_stride(4, 64);
  const std::size_t bytes = abi::session_bytes(kVcbs);
  const SharedArea area(bytes);
  const Vandal vandal(area, bytes);
  SessionView session(area.base(), kVcbs);
  SendRing send(area.base(), 16, kStride);
  ReceiveRing receive(area.base(), 16, 4);
  CompletionRing completion(area.base() + 4096, 16);

  abi::CommandHeader header;
  // One byte more than a payload may have: it must stay as it is.
  std::byte payload[257];
  payload[256] = std::byte{0xa5};
  for (std::uint32_t i = 0; i < kRounds; ++i) {
    EXPECT_EQ(session.pending() >> kVcbs, 0u);
    session.release(session.pending());
    if (session.copy_command(i % kVcbs, header, payload) == Verdict::kOk) {
      ASSERT_LE(header.payload_bytes, 256);
    }
    if (send.copy(i, header, payload) == Verdict::kOk) {
      ASSERT_LE(header.payload_bytes, kStride - 64);
    }
    ReceiveWork work;
    if (receive.take(work) == Take::kTaken) {
      ASSERT_LE(work.count, 4u);
    }
    abi::Doorbell doorbell;
    if (session.next_doorbell(doorbell) == Take::kTaken) session.take_doorbell();
    completion.push(Completion{});
    completion.check_arm();
    ASSERT_LE(completion.backlog(), 16u);
    ASSERT_EQ(payload[256], std::byte{0xa5});
  }
}

}  // namespace
}  // namespace softhca::shm
