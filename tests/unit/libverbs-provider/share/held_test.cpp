// SPDX-License-Identifier: Apache-2.0

// Memory that something else than the program's threads uses while it is registered stays where it
// is: pages that a device or io_uring has pinned, and futexes that threads sleep in.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/libverbs-provider/share/fake_daemon.hpp"

namespace softhca::provider {
namespace {

constexpr std::size_t kPiece = Replacer::kPieceBytes;
constexpr unsigned long kMovePages = _IOWR(UFFDIO, 0x05, std::uint64_t[5]);

/// Three pieces of memory that begin where one does.
class Pieces {
 public:
  Pieces() : memory_(4 * kPiece / kPage) {
    const auto addr = reinterpret_cast<std::uint64_t>(memory_.base());
    base_ = memory_.base() + (kPiece - addr % kPiece) % kPiece;
    Anonymous::fill(base_, kBytes, 3);
  }
  char* base() const { return base_; }
  bool intact() const { return Anonymous::holds(base_, kBytes, 3); }
  static constexpr std::size_t kBytes = 3 * kPiece;

 private:
  Anonymous memory_;
  char* base_;
};

/// A page that io_uring has pinned as a fixed buffer.
class Pinned {
 public:
  explicit Pinned(void* page) {
    io_uring_params parameters{};
    ring_ = static_cast<int>(::syscall(SYS_io_uring_setup, 1, &parameters));
    iovec buffer{page, kPage};
    works_ = ring_ >= 0 &&
             ::syscall(SYS_io_uring_register, ring_, IORING_REGISTER_BUFFERS, &buffer, 1) == 0;
  }
  ~Pinned() { release(); }
  bool works() const { return works_; }
  void release() {
    if (ring_ >= 0) {
      ::syscall(SYS_io_uring_register, ring_, IORING_UNREGISTER_BUFFERS, nullptr, 0);
      ::close(ring_);
    }
    ring_ = -1;
  }

 private:
  int ring_;
  bool works_;
};

/// As for programs without privileges.
int user_mode_only(int flags) {
  return (flags & 1) != 0 ? KernelCalls::real().userfaultfd(flags) : -1;
}

bool moves_pinless() {
  const int fd = user_mode_only(O_CLOEXEC | 1);
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = 1 << 16;  // UFFD_FEATURE_MOVE
  const bool moves = fd >= 0 && ::ioctl(fd, UFFDIO_API, &api) == 0;
  if (fd >= 0) ::close(fd);
  return moves;
}

class Held : public testing::Test {
 protected:
  std::string prepare(MemoryRegistry& registry, const char* addr, std::size_t length) {
    if (registry.prepare(region(addr, length), extents_) != 0) return "error";
    return shape(addr, length, extents_);
  }

  FakeDaemon daemon_;
  ExtentList extents_;
};

TEST_F(Held, PinnedPage_RegionAroundIt_OnlyItsPieceIsLeft) {
  if (!moves_pinless()) GTEST_SKIP() << "this kernel has no UFFDIO_MOVE (Linux 6.8)";
  if (::geteuid() != 0) GTEST_SKIP() << "needs a userfaultfd that holds system calls: root";
  MemoryRegistry registry(daemon_.source());
  const Pieces memory;
  Pinned pinned(memory.base() + kPiece + 5 * kPage);
  if (!pinned.works()) GTEST_SKIP() << "io_uring is not permitted here";
  EXPECT_EQ(prepare(registry, memory.base(), Pieces::kBytes), "SPS");
  EXPECT_TRUE(memory.intact());
  EXPECT_TRUE(daemon_.sees_the_same(extents_.all(), memory.base(), kPiece));
  EXPECT_TRUE(daemon_.sees_the_same(extents_.all(), memory.base() + 2 * kPiece, kPiece));
  registry.release(extents_.all());
  pinned.release();
  EXPECT_EQ(prepare(registry, memory.base(), Pieces::kBytes), "SSS");
  EXPECT_TRUE(memory.intact());
}

TEST_F(Held, PinnedPage_SystemCallsWouldFail_AllThatFollowsIsLeft) {
  if (!moves_pinless()) GTEST_SKIP() << "this kernel has no UFFDIO_MOVE (Linux 6.8)";
  KernelCalls kernel = KernelCalls::real();
  kernel.userfaultfd = user_mode_only;
  MemoryRegistry registry(daemon_.source(), {}, kernel);
  const Pieces memory;
  Pinned pinned(memory.base() + kPiece + 5 * kPage);
  if (!pinned.works()) GTEST_SKIP() << "io_uring is not permitted here";
  EXPECT_EQ(prepare(registry, memory.base(), Pieces::kBytes), "SP");
  EXPECT_TRUE(memory.intact());
}

TEST_F(Held, PageIsPinned_AtTheMomentOfTheExchange_IsLeft) {
  if (!moves_pinless()) GTEST_SKIP() << "this kernel has no UFFDIO_MOVE (Linux 6.8)";
  const Pieces memory;
  static std::function<void()> pin;
  std::unique_ptr<Pinned> pinned;
  pin = [&] { pinned = std::make_unique<Pinned>(memory.base() + 7 * kPage); };
  KernelCalls kernel = KernelCalls::real();
  kernel.control = [](int fd, unsigned long request, void* argument) {
    if (request == kMovePages && pin != nullptr) std::exchange(pin, nullptr)();
    return KernelCalls::real().control(fd, request, argument);
  };
  MemoryRegistry registry(daemon_.source(), {}, kernel);
  EXPECT_EQ(prepare(registry, memory.base(), kPiece), "P");
  if (!pinned->works()) GTEST_SKIP() << "io_uring is not permitted here";
  EXPECT_TRUE(memory.intact());
}

TEST_F(Held, PagesSharedWithAChild_AreExchanged) {
  MemoryRegistry registry(daemon_.source());
  const Pieces memory;
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  EXPECT_EQ(prepare(registry, memory.base(), Pieces::kBytes), "S");
  EXPECT_TRUE(memory.intact());
  EXPECT_TRUE(daemon_.sees_the_same(extents_.all(), memory.base(), Pieces::kBytes));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_F(Held, LockedMemory_IsExchanged) {
  MemoryRegistry registry(daemon_.source());
  const Pieces memory;
  const Pieces other;
  ASSERT_EQ(::mlock(memory.base(), kPiece), 0);
  EXPECT_EQ(prepare(registry, memory.base(), Pieces::kBytes), "S");
  EXPECT_TRUE(memory.intact());
  ASSERT_EQ(::mlockall(MCL_CURRENT), 0);
  const std::string locked = prepare(registry, other.base(), Pieces::kBytes);
  ::munlockall();
  EXPECT_EQ(locked, "S");
  EXPECT_TRUE(other.intact());
}

/// A thread that sleeps in a semaphore which processes may share.
class Sleeper {
 public:
  explicit Sleeper(void* place) : semaphore_(static_cast<sem_t*>(place)) {
    ::sem_init(semaphore_, 1, 0);
    thread_ = std::thread([this] {
      id_ = static_cast<pid_t>(::syscall(SYS_gettid));
      while (::sem_wait(semaphore_) != 0) {
      }
      woken_ = true;
    });
    while (!sleeps()) ::usleep(1000);
  }
  ~Sleeper() { thread_.join(); }
  /// True if the thread is found by those that wake it. If it is not it is woken all the same, in
  /// the end.
  bool is_woken() {
    ::sem_post(semaphore_);
    for (int i = 0; i < 5000 && !woken_; ++i) ::usleep(1000);
    const bool woken = woken_;
    if (!woken) ::syscall(SYS_tgkill, ::getpid(), id_.load(), SIGUSR1);
    return woken;
  }

 private:
  bool sleeps() const {
    std::ifstream file("/proc/self/task/" + std::to_string(id_) + "/syscall");
    long number = -1;
    return id_ != 0 && file >> number && number == SYS_futex;
  }

  sem_t* semaphore_;
  std::atomic<pid_t> id_{0};
  std::atomic<bool> woken_{false};
  std::thread thread_;
};

class HeldByASleeper : public Held {
 protected:
  void SetUp() override {
    ::signal(SIGUSR1, [](int) {});
  }
};

TEST_F(HeldByASleeper, SharedSemaphore_ThreadSleepsBeforehand_OnlyItsPieceIsLeftAndItIsWoken) {
  MemoryRegistry registry(daemon_.source());
  const Pieces memory;
  Sleeper sleeper(memory.base() + kPiece + 64);
  EXPECT_EQ(prepare(registry, memory.base(), Pieces::kBytes), "SPS");
  EXPECT_TRUE(sleeper.is_woken());
}

TEST_F(HeldByASleeper, MoreSleepElsewhereThanAreNoted_OnlyTheirRegionIsLeft) {
  MemoryRegistry registry(daemon_.source());
  const Pieces memory;
  const Pieces elsewhere;
  std::vector<std::unique_ptr<Sleeper>> sleepers;
  for (std::size_t i = 0; i < 40; ++i)
    sleepers.push_back(std::make_unique<Sleeper>(elsewhere.base() + i * 64));
  EXPECT_EQ(prepare(registry, memory.base(), Pieces::kBytes), "S");
  EXPECT_EQ(prepare(registry, elsewhere.base(), Pieces::kBytes), "P");
  for (const auto& sleeper : sleepers) EXPECT_TRUE(sleeper->is_woken());
}

TEST_F(HeldByASleeper, SharedSemaphore_ThreadFallsAsleepMeanwhile_IsLeftAndItIsWoken) {
  const Pieces memory;
  static std::function<void()> fall_asleep;
  std::unique_ptr<Sleeper> sleeper;
  fall_asleep = [&] { sleeper = std::make_unique<Sleeper>(memory.base() + 64); };
  KernelCalls kernel = KernelCalls::real();
  kernel.map = [](void* addr, std::size_t length, int prot, int flags, int fd, off_t offset) {
    if (fd >= 0 && fall_asleep != nullptr) std::exchange(fall_asleep, nullptr)();
    return KernelCalls::real().map(addr, length, prot, flags, fd, offset);
  };
  MemoryRegistry registry(daemon_.source(), {}, kernel);
  EXPECT_EQ(prepare(registry, memory.base(), kPiece), "P");
  EXPECT_TRUE(sleeper->is_woken());
}

TEST_F(HeldByASleeper, SharedSemaphoreInGivenBackMemory_IsLeftAndItIsWoken) {
  if (in_machine()) GTEST_SKIP() << "in a machine it is adopted";
  MemoryRegistry registry(daemon_.source(), {.idle_bytes = 0}, KernelCalls::real());
  const Pieces memory;
  ASSERT_EQ(prepare(registry, memory.base(), kPiece), "S");
  registry.release(extents_.all());
  Sleeper sleeper(memory.base() + 64);
  EXPECT_EQ(prepare(registry, memory.base(), kPiece), "P");
  EXPECT_TRUE(sleeper.is_woken());
}

}  // namespace
}  // namespace softhca::provider
