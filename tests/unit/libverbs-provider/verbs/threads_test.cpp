// SPDX-License-Identifier: Apache-2.0

// Threads that make queues of one context at the same time.
#include <sys/resource.h>

#include <barrier>
#include <fstream>
#include <thread>

#include "tests/unit/libverbs-provider/device_fixture.hpp"

namespace softhca::provider::test {
namespace {

/// For as long as it lives the process cannot map `bytes` more.
class NoRoomFor {
 public:
  explicit NoRoomFor(std::size_t bytes) {
    ::getrlimit(RLIMIT_AS, &before_);
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit tight{pages * static_cast<std::size_t>(::getpagesize()) + bytes / 2,
                       before_.rlim_max};
    ::setrlimit(RLIMIT_AS, &tight);
    rlimit now{};
    ::getrlimit(RLIMIT_AS, &now);
    effective_ = now.rlim_cur == tight.rlim_cur;
  }
  ~NoRoomFor() { ::setrlimit(RLIMIT_AS, &before_); }

  /// False under qemu-user, which keeps such a limit to itself.
  bool effective() const { return effective_; }

 private:
  rlimit before_{};
  bool effective_ = false;
};

using Threads = DeviceTest;

/// The memory of a ring is announced once, with the reply to whichever thread came first.
TEST_F(Threads, MakeTheFirstQueuesOfAContext) {
  constexpr int kThreads = 8;
  for (int round = 0; round < 100; ++round) {
    ibv_context* context = world_->open();
    ASSERT_NE(context, nullptr);
    std::barrier start(kThreads);
    ibv_cq* cqs[kThreads] = {};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i)
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        cqs[i] = ibv_create_cq(context, 16, nullptr, nullptr, 0);
      });
    for (std::thread& thread : threads) thread.join();
    for (ibv_cq* cq : cqs) {
      EXPECT_NE(cq, nullptr) << "round " << round;
      if (cq != nullptr) {
        EXPECT_EQ(ibv_destroy_cq(cq), 0);
      }
    }
    ASSERT_EQ(ibv_close_device(context), 0);
  }
}

/// If the process cannot map the ring of a queue, the provider destroys the queue in the daemon.
/// Once there is room, the provider maps memory that the daemon announces again.
TEST_F(Threads, AQueueThatCannotBeMappedIsGivenBack) {
  {
    const NoRoomFor segment(FakeSession::kSegmentBytes);
    if (!segment.effective()) GTEST_SKIP() << "the process's memory cannot be limited";
    EXPECT_EQ(ibv_create_cq(context_, 16, nullptr, nullptr, 0), nullptr);
    EXPECT_EQ(errno, ENOMEM);
  }
  EXPECT_EQ(daemon().count(abi::Operation::kDestroyCq), 1u);
  ibv_cq* cq = make_cq();
  ASSERT_NE(cq, nullptr);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

}  // namespace
}  // namespace softhca::provider::test
