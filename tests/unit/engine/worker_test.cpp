// The thread of an engine: who asks something of it does not wait for the end of a sleep.
#include "daemon/engine/worker.hpp"

#include <unistd.h>

#include <fstream>

#include "tests/unit/engine/pair.hpp"

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

/// A sleep of the engine takes no time, and an event that nobody would have told it of is counted.
/// When armed, a request is made while the engine looks for wake-ups without sleeping.
class WorkerTest : public ::testing::Test {
 protected:
  long wait(int epoll, std::span<epoll_event> events, Duration timeout) {
    const bool sleeps = timeout != Duration::zero();
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
    worker.run([&](Engine&) { answered = true; });
  }

  Pair pair{Way::kLocal};
  std::atomic<bool> armed{false}, ask{false}, answered{false};
  std::atomic<pid_t> asker{0};
  std::atomic<unsigned> slept{0}, overslept{0};
};

TEST_F(WorkerTest, ARequestMadeJustBeforeASleepDoesNotWaitForItsEnd) {
  Worker worker(pair.a->adapter.engine,
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
  EXPECT_EQ(overslept, 0u);
}

}  // namespace
}  // namespace softhca::engine
