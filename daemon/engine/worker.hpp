// SPDX-License-Identifier: Apache-2.0

// The thread of an engine. It reads the clock for the engine and sleeps when the engine has no
// work.
//
// While there is work it polls. Without work it yields its core after every step, since programs
// may share the core, unless one does not yield it back (idle_policy.hpp). It parks processes that
// are idle for a while. When all are parked and nothing is due, it sleeps until a process writes
// its wake eventfd, a frame arrives, a timer is due or another thread has a request for it.
#pragma once

#include <sys/epoll.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <type_traits>
#include <utility>

#include "daemon/base/counter.hpp"
#include "daemon/base/expected.hpp"
#include "daemon/base/pulse.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/engine/events/event_notifier.hpp"
#include "daemon/engine/idle_policy.hpp"

namespace softhca::engine {

class Engine;
struct Session;

/// Waits with epoll_pwait2(2), or else with a resolution of milliseconds. Returns the number of
/// events.
long wait_for_events(int epoll, std::span<epoll_event> events, Duration timeout);

struct WorkerOptions {
  bool adaptive = true;  ///< false: always polls, never parks or sleeps
  Duration park_after = std::chrono::microseconds(200);  ///< idle time before a process is parked
  std::optional<std::uint32_t> cpu;                      ///< core to pin to
  std::function<long(int, std::span<epoll_event>, Duration)> wait = wait_for_events;
  Pulse* pulse = nullptr;  ///< signs of life of the thread; null: no process watches it
};

class Worker {
 public:
  Worker(Engine& engine, WorkerOptions options);
  ~Worker() { stop(); }

  /// Starts the thread, and watches the sessions that are polled already. REQUIRES: the engine's
  /// ports are added. Errors: out of descriptors or threads, no such core.
  Outcome start();
  void stop();

  /// Carries a request to the engine and returns its answer. A request is a plain struct of
  /// engine/requests/ that names what it is about; its run(Engine&) is called on the engine's
  /// thread between two poll steps. May be called on any thread except the engine's own. Before
  /// start() and after stop() the request runs on the caller's thread.
  template <class Request>
  auto run(Request&& request) {
    return carry(nullptr, request);
  }
  /// Does the same for a process. The request waits while the tenant has had more than its share of
  /// the engine, but not for long, since the caller also serves other tenants. It counts as the
  /// tenant's work. REQUIRES: the session is installed when it begins.
  template <class Request>
  auto run_for(const Session& session, Request&& request) {
    return carry(&session, request);
  }

  /// Wakes the engine if it sleeps: there may be work that it does not poll for. May be called on
  /// any thread.
  void wake();

  /// Waits for the end of a completion event in progress to this channel, if there is one. No
  /// further event comes from queues that were removed before. May be called on any thread except
  /// the engine's.
  void await_event(int completion_end) const { notifier_.await(completion_end); }

  /// Sets how the engine idles from now on.
  void set_idle(bool adaptive);
  /// Waits until the engine has ended a poll step. It returns only while the engine's thread runs.
  void await_step();

  /// Starts or stops listening to the session's wake eventfd. A session is watched after it is
  /// polled, and no longer before it is removed. Before start() they do nothing.
  void watch(Session& session) const;
  void unwatch(const Session& session) const;

  const Counter& polls() const { return polls_; }
  const Counter& sleeps() const { return sleeps_; }
  /// Returns the nanoseconds spent in poll steps that had work.
  const Counter& busy() const { return busy_; }
  /// Returns the nanoseconds that programs kept the processor when the engine yielded it.
  const Counter& lost() const { return idle_policy_.lost(); }

 private:
  /// A request under way.
  struct Call {
    void (*serve)(Engine& engine, void* request);
    void* request;
    const Session* payer;  ///< null: the daemon itself
  };

  template <class Request>
  auto carry(const Session* payer, Request& request) {
    using RequestAnswer = decltype(request.run(std::declval<Engine&>()));
    if constexpr (std::is_void_v<RequestAnswer>) {
      call({[](Engine& engine, void* it) { static_cast<Request*>(it)->run(engine); },
            const_cast<std::remove_const_t<Request>*>(&request), payer});
    } else {
      struct {
        Request& request;
        std::optional<RequestAnswer> answer;
      } asked{request, std::nullopt};
      using Asked = decltype(asked);
      call({[](Engine& engine, void* it) {
              auto& [of, answer] = *static_cast<Asked*>(it);
              answer.emplace(of.run(engine));
            },
            &asked, payer});
      return *std::move(asked.answer);
    }
  }

  void call(const Call& call);
  void loop();
  bool run_call(Time now);
  void idle(Time now);
  bool is_called() const;
  void check_parked_sessions(Time now);
  bool park_idle_sessions(Time now, Duration after);
  void look_for_wakeups(Duration timeout);
  Duration time_to_sleep(Time now) const;

  Engine& engine_;
  WorkerOptions options_;
  Pulse unwatched_{};
  Pulse& pulse_;
  EventNotifier notifier_;
  UniqueFd epoll_;
  UniqueFd wake_;
  bool naps_ = false;  ///< a port cannot wake the engine: it sleeps only briefly
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  /// True: a thread with work for the engine must wake it. Both sides exchange it, so that one sees
  /// the other.
  std::atomic<bool> asleep_{false};

  std::mutex callers_;
  std::atomic<const Call*> call_{nullptr};
  std::optional<Time> call_waits_since_;  ///< since when it waits for its tenant's turn

  IdlePolicy idle_policy_;
  bool has_yielded_ = false;  ///< since the last step
  Time last_work_{};
  Time last_wakeup_look_{};
  std::uint64_t wakeups_seen_ = 0;  ///< engine time at the last check for wake-ups
  Counter polls_;
  Counter sleeps_;
  Counter busy_;
};

}  // namespace softhca::engine
