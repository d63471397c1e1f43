// SPDX-License-Identifier: Apache-2.0

// The thread of an engine: a request from another thread does not wait for the end of a sleep.
#include "daemon/engine/worker.hpp"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>

#include "tests/unit/engine/fixture/pair.hpp"
#include "tests/unit/engine/fixture/task.hpp"

namespace softhca::engine {
namespace {

/// The state of a thread (proc_pid_stat(5)).
char state_of(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string stat;
  std::getline(file, stat);
  const std::size_t name_end = stat.rfind(')');
  return name_end + 2 < stat.size() ? stat[name_end + 2] : '?';
}

template <class F>
bool eventually(F&& holds) {
  for (int i = 0; i < 20'000; ++i) {
    if (holds()) return true;
    ::usleep(500);
  }
  return false;
}

/// Replaces the engine's sleep by a call that returns at once. `overslept` counts the sleeps that
/// begin without a wake-up while a request waits. When armed, a request is made while the engine
/// polls for wake-ups without sleeping.
class WorkerTest : public ::testing::Test {
 protected:
  long wait(int epoll, std::span<epoll_event> events, Duration timeout) {
    const bool sleeps = timeout != Duration::zero();
    if (!sleeps) ++looked;
    if (!sleeps && armed.exchange(false)) {
      ask.store(true);
      EXPECT_TRUE(eventually([&] { return state_of(asker) == 'S'; })) << "waits for the engine";
    }
    const long count = wait_for_events(epoll, events, Duration::zero());
    // In this order, as the next round begins the other way round.
    if (sleeps && count == 0 && !answered && ask) ++overslept;
    if (sleeps) ++slept;
    return count;
  }

  /// It stays on a processor until it waits for the engine.
  void ask_once(Worker& worker) {
    asker = ::gettid();
    while (!ask.load()) {
    }
    worker.run(Task{[&](Engine&) { answered = true; }});
  }

  Pair pair{Way::kLocal};
  std::atomic<bool> armed{false}, ask{false}, answered{false};
  std::atomic<pid_t> asker{0};
  std::atomic<unsigned> slept{0}, looked{0}, overslept{0};
};

TEST_F(WorkerTest, AnEngineThatIsAwakePollsFewProcessesWithoutSystemCalls) {
  Worker worker(pair.a->adapter.engine,
                {.wait = [this](int epoll, std::span<epoll_event> events, Duration timeout) {
                  return wait(epoll, events, timeout);
                }});
  ASSERT_TRUE(worker.start());
  EXPECT_TRUE(eventually([&] { return slept > 10; }));
  worker.stop();
  EXPECT_EQ(looked, 0u);
}

TEST_F(WorkerTest, ARequestMadeJustBeforeASleepDoesNotWaitForItsEnd) {
  Adapter& adapter = pair.a->adapter;
  std::vector<std::unique_ptr<Process>> more;  // with so many it asks epoll
  for (int i = 0; i < 8; ++i)
    more.push_back(std::make_unique<Process>(adapter, *adapter.tenants[0]));
  Worker worker(adapter.engine,
                {.wait = [this](int epoll, std::span<epoll_event> events, Duration timeout) {
                  return wait(epoll, events, timeout);
                }});
  ASSERT_TRUE(worker.start());
  for (int round = 0; round < 20; ++round) {
    ask = false;
    answered = false;
    asker = 0;
    std::thread thread([&] { ask_once(worker); });
    // From now on what follows a look is a sleep.
    const unsigned before = slept;
    EXPECT_TRUE(eventually([&] { return slept > before + 1 && asker != 0; }));
    armed = true;
    thread.join();
    EXPECT_TRUE(answered);
  }
  worker.stop();
  for (const auto& process : more) process->end();
  EXPECT_EQ(overslept, 0u);
}

TEST_F(WorkerTest, ASleepIsNoYieldThatTookLong) {
  Worker worker(pair.a->adapter.engine,
                {.wait = [this](int, std::span<epoll_event>, Duration timeout) -> long {
                  if (timeout == Duration::zero()) return 0;
                  ::usleep(2 * IdlePolicy::kLongYield / std::chrono::microseconds(1));
                  ++slept;
                  return 0;
                }});
  ASSERT_TRUE(worker.start());
  EXPECT_TRUE(eventually([&] { return slept > 10; }));
  worker.stop();
  EXPECT_EQ(worker.lost().value(), 0u);
}

/// Forbids epoll_pwait2(2) to this thread, as on kernels before Linux 5.11. Returns false if it
/// cannot be forbidden here.
bool forbid_nanoseconds() {
  sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_epoll_pwait2, 0, 1),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program{std::size(code), code};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
  return ::syscall(SYS_epoll_pwait2, -1, nullptr, 0, nullptr, nullptr, 0) < 0 && errno == ENOSYS;
}

TEST(WaitForEvents, AlsoWhereThereAreOnlyMilliseconds) {
  bool forbidden = false;
  std::thread([&] {
    forbidden = forbid_nanoseconds();
    if (!forbidden) return;
    const UniqueFd epoll(::epoll_create1(0)), event(::eventfd(0, 0));
    epoll_event what{.events = EPOLLIN, .data = {.u64 = 7}};
    ASSERT_EQ(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, event.get(), &what), 0);
    std::array<epoll_event, 2> events{};
    EXPECT_EQ(wait_for_events(epoll.get(), events, Duration::zero()), 0);
    EXPECT_EQ(wait_for_events(epoll.get(), events, std::chrono::microseconds(3)), 0);
    ASSERT_EQ(::eventfd_write(event.get(), 1), 0);
    EXPECT_EQ(wait_for_events(epoll.get(), events, std::chrono::hours(1)), 1);
    const std::uint64_t told = events[0].data.u64;  // it is packed
    EXPECT_EQ(told, 7u);
  }).join();
  if (!forbidden) GTEST_SKIP() << "no system call can be forbidden here";
}

}  // namespace
}  // namespace softhca::engine
