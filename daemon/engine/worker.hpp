// The thread of an engine, which reads the clock for it and sleeps when nothing is to be done.
//
// While there is work it polls. Without any it yields its core after every step, since programs
// may share it; processes idle for a while are parked; and when all are parked and nothing is
// due it sleeps until a process writes its wake eventfd, a frame comes, a timer is due or another
// thread has a task for it.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "daemon/base/counter.hpp"
#include "daemon/base/expected.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/engine/engine.hpp"
#include "daemon/engine/event_notifier.hpp"

namespace softhca::engine {

/// Waits by epoll_pwait2(2), or else by whole milliseconds. Returns how many events there are now.
long wait_for_events(int epoll, std::span<epoll_event> events, Duration timeout);

struct WorkerOptions {
  bool adaptive = true;  ///< false: polls forever, never parks or sleeps
  Duration park_after = std::chrono::microseconds(200);
  std::optional<std::uint32_t> cpu;  ///< core to pin to
  std::function<long(int, std::span<epoll_event>, Duration)> wait = wait_for_events;
};

class Worker {
 public:
  using Task = std::function<void(Engine&)>;

  Worker(Engine& engine, WorkerOptions options)
      : engine_(engine),
        options_(std::move(options)),
        notifier_(engine.completion_events().sink(), engine.cpu().classes()) {}
  ~Worker() { stop(); }

  /// REQUIRES: the engine's ports are added. Errors: out of descriptors or threads, no such core.
  Outcome start();
  void stop();

  /// Runs `task` on the engine's thread between two poll steps and returns when it is done. To be
  /// called on any thread but the engine's own. Before start() and after stop(), when there is
  /// none, the task runs on the caller's.
  void run(const Task& task) { run({task, nullptr}); }
  /// As run(), for a process: the task waits while the tenant has had more of the engine than its
  /// share, but not for long, since the caller serves other tenants too; and it counts as the
  /// tenant's work. REQUIRES: the session is installed when it begins.
  void run_for(const Session& session, const Task& task) { run({task, &session}); }

  /// Something waits for the engine that it may not be looking for. May be called on any thread.
  void wake();

  /// On any thread but the engine's: waits for the end of a completion event that is under way into
  /// this channel, if one is. No other comes of queues that were removed before.
  void await_event(int channel_fd) const { notifier_.await(channel_fd); }

  /// From a task: how eagerly to look for work from now on.
  void set_idle(bool adaptive, Duration park_after) {
    options_.adaptive = adaptive;
    options_.park_after = park_after;
  }

  /// From a task: the session's wake eventfd is to be listened to, or no longer.
  void watch(Session& session);
  void unwatch(Session& session);

  const Counter& polls() const { return polls_; }
  const Counter& sleeps() const { return sleeps_; }
  /// Nanoseconds in poll steps that had something to do.
  const Counter& busy() const { return busy_; }

 private:
  struct Request {
    const Task& task;
    const Session* payer;  ///< null: the daemon itself
  };

  void run(const Request& request);
  void loop();
  bool run_task(Time now);
  void idle(Time now);
  bool is_called() const;
  bool park_idle_sessions(Time now);
  void look_for_wakeups(Duration timeout);
  Duration time_to_sleep(Time now) const;

  Engine& engine_;
  WorkerOptions options_;
  EventNotifier notifier_;
  UniqueFd epoll_;
  UniqueFd wake_;
  bool naps_ = false;  ///< a port cannot wake us: sleep only briefly
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  /// True: whoever has something for the engine must wake it. Both sides exchange it, so that one
  /// sees the other.
  std::atomic<bool> asleep_{false};

  std::mutex callers_;
  std::atomic<const Request*> request_{nullptr};
  std::optional<Time> task_waits_since_;  ///< for its tenant's turn

  Time last_work_{};
  Time last_wakeup_look_{};
  std::uint64_t wakeups_seen_ = 0;  ///< engine time spent at that look
  Counter polls_;
  Counter sleeps_;
  Counter busy_;
};

}  // namespace softhca::engine
