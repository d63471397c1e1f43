// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/worker.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "daemon/base/system_error.hpp"
#include "daemon/engine/engine.hpp"
#include "daemon/engine/records/costs.hpp"
#include "daemon/engine/records/system_clock.hpp"

namespace softhca::engine {
namespace {

// Interval between checks for wake-ups of parked processes while the engine is busy with others.
constexpr Duration kWakeupInterval = std::chrono::microseconds(20);
// Polling up to this many sessions costs less than the system call of such a check, so an engine
// that is awake polls them instead.
constexpr std::size_t kFewSessions = 8;
// After this time without work, the engine considers sleeping.
constexpr Duration kSpinBeforeSleep = std::chrono::microseconds(50);
// Steps between two looks at the processor on which the engine runs.
constexpr std::uint64_t kStepsOfPlace = 64;
// The longest sleeps: with ports that cannot wake the engine; with ports that can; and without
// ports. A port's socket may become readable just before the frame is in the port's ring. The
// engine then wakes up too early and finds nothing.
constexpr Duration kNap = std::chrono::microseconds(500);
constexpr Duration kLongestPortSleep = std::chrono::milliseconds(20);
constexpr Duration kLongestSleep = std::chrono::seconds(1);
// A request for a process waits at most this long for its tenant's turn. Its caller is the thread
// that serves all tenants' requests, so a longer wait delays other tenants' requests. Without this
// limit, the end of a process with 200 queue pairs, of a tenant of small weight, delayed another
// tenant's request by 0.4 s.
constexpr Duration kLongestWait = std::chrono::microseconds(200);

bool listen_to(int epoll, int fd, void* who, std::uint32_t how = 0) {
  epoll_event event{};
  event.events = EPOLLIN | how;
  event.data.ptr = who;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

/// Returns the processor on which the calling thread runs.
unsigned place() { return static_cast<unsigned>(std::max(::sched_getcpu(), 0)); }

void drain(int eventfd) {
  std::uint64_t count;
  [[maybe_unused]] const ssize_t got = ::read(eventfd, &count, sizeof count);
}

}  // namespace

/// The system call is made directly: it takes nanoseconds, while epoll_wait takes milliseconds.
/// Only the latter is available before Linux 5.11, in sandboxes that do not know the call, and
/// under qemu-user.
long wait_for_events(int epoll, std::span<epoll_event> events, Duration timeout) {
  const timespec limit{.tv_sec = timeout / std::chrono::seconds(1),
                       .tv_nsec = (timeout % std::chrono::seconds(1)).count()};
  const long count =
      ::syscall(SYS_epoll_pwait2, epoll, events.data(), events.size(), &limit, nullptr, 0);
  if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return count;
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(timeout).count();
  return ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()),
                      static_cast<int>(milliseconds));
}

Worker::Worker(Engine& engine, WorkerOptions options)
    : engine_(engine),
      options_(std::move(options)),
      pulse_(options_.pulse != nullptr ? *options_.pulse : unwatched_),
      notifier_(engine.completion_queues().sink(), engine.cpu().classes()) {}

Outcome Worker::start() {
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_ || !wake_ || !listen_to(epoll_.get(), wake_.get(), this))
    return system_error("engine wake-up");
  for (const auto& binding : engine_.ports()) {
    const int fd = binding->port->wait_fd();
    if (fd < 0 || !listen_to(epoll_.get(), fd, nullptr)) naps_ = true;
  }
  for (Session* session : engine_.intake().sessions()) watch(*session);
  notifier_.start(options_.cpu);
  thread_ = std::thread([this] { loop(); });
  ::pthread_setname_np(thread_.native_handle(), "softhca-engine");
  if (!options_.cpu) return {};
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(*options_.cpu, &set);
  if (const int code = ::pthread_setaffinity_np(thread_.native_handle(), sizeof set, &set))
    return Error{"cannot pin the engine to core " + std::to_string(*options_.cpu) +
                     " (daemon.engine_cpu): " + std::strerror(code) +
                     "; check that the core is online and in the daemon's cpuset",
                 code};
  return {};
}

void Worker::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  wake();
  thread_.join();
  notifier_.stop();
}

void Worker::wake() {
  if (!asleep_.exchange(false)) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = ::write(wake_.get(), &one, sizeof one);
}

void Worker::set_idle(bool adaptive) {
  struct SetIdle {
    WorkerOptions& options;
    bool adaptive;
    void run(Engine&) const { options.adaptive = adaptive; }
  };
  run(SetIdle{options_, adaptive});
}

void Worker::await_step() {
  call({[](Engine&, void*) {}, nullptr, nullptr});
}

void Worker::call(const Call& call) {
  const std::lock_guard lock(callers_);
  if (!thread_.joinable()) return call.serve(engine_, call.request);
  call_.store(&call);
  wake();
  call_.wait(&call);
}

bool Worker::run_call(Time now) {
  const Call* const call = call_.load(std::memory_order_acquire);
  if (call == nullptr) return false;
  const Session* payer = call->payer;
  if (payer != nullptr && !engine_.cpu().may_take_in(payer->qos_class)) {
    if (!call_waits_since_) call_waits_since_ = now;
    if (now - *call_waits_since_ < kLongestWait) return false;
  }
  call_waits_since_.reset();
  engine_.cpu().end_step();
  if (payer != nullptr) engine_.clock().work_on(subject_of(*payer));
  call->serve(engine_, call->request);
  engine_.clock().work_on(Subject());
  if (payer != nullptr) engine_.cpu().charge(*payer, kRequestCost);
  engine_.cpu().end_step();
  call_.store(nullptr);
  call_.notify_all();
  return true;
}

/// Each write to the wake eventfd is an edge. The engine never reads it: the process may have made
/// it blocking, as both share its flags, and may read it first.
void Worker::watch(Session& session) const {
  listen_to(epoll_.get(), session.wake_fd, &session, EPOLLET);
}

void Worker::unwatch(const Session& session) const {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, session.wake_fd, nullptr);
}

void Worker::loop() {
  sigset_t all;
  sigfillset(&all);
  for (const int fault : kFaultSignals) sigdelset(&all, fault);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  WorkClock clock;
  engine_.cpu().measure_by(&clock);
  engine_.clock().pulse = &pulse_;
  engine_.clock().read = monotonic_time;
  engine_.completion_queues().notify_by(&notifier_);
  bool worked = false;
  pulse_.begin();
  Time before = monotonic_time();
  while (!stopping_.load(std::memory_order_relaxed)) {
    const Time now = monotonic_time();
    if (worked) busy_.add(static_cast<std::uint64_t>((now - before).count()));
    if (std::exchange(has_yielded_, false)) idle_policy_.yielded(now, now - before);
    before = now;
    if (polls_.value() % kStepsOfPlace == 0) engine_.intake().note_cpu(place());
    polls_.add();
    pulse_.beat();
    const bool polled = engine_.poll(now);
    worked = run_call(now) || polled;
    if (worked) last_work_ = now;
    if (engine_.intake().parked() != 0 && now - last_wakeup_look_ >= kWakeupInterval)
      check_parked_sessions(now);
    if (!worked) idle(now);
  }
  pulse_.end();
  engine_.completion_queues().notify_by(nullptr);
  engine_.clock().read = nullptr;
  engine_.cpu().measure_by(nullptr);
  engine_.clock().pulse = nullptr;
}

void Worker::idle(Time now) {
  const bool sleeps_at_once = options_.adaptive && idle_policy_.sleeps(now);
  if (!sleeps_at_once) {
    ::sched_yield();
    has_yielded_ = true;
    if (!options_.adaptive || now - last_work_ < kSpinBeforeSleep) return;
  }
  const Duration park_after = sleeps_at_once ? Duration::zero() : options_.park_after;
  if (!park_idle_sessions(now, park_after) || engine_.has_runnable()) return;
  const Duration sleep = time_to_sleep(now);
  if (sleep < std::chrono::microseconds(5)) return;
  has_yielded_ = false;  // a sleep would count as a long yield
  // A caller that came before this point has not woken the engine; is_called() finds its work.
  asleep_.exchange(true);
  if (!is_called()) {
    for (const auto& binding : engine_.ports()) binding->port->prepare_sleep();
    sleeps_.add();
    pulse_.fall_asleep();
    look_for_wakeups(sleep);
    pulse_.wake_up();
    last_wakeup_look_ = monotonic_time();
  }
  asleep_.store(false);
}

bool Worker::is_called() const {
  return engine_.has_runnable() || call_.load() != nullptr || stopping_.load();
}

/// Finds out which parked sessions have posted something, or polls them from now on.
void Worker::check_parked_sessions(Time now) {
  last_wakeup_look_ = now;
  if (engine_.intake().sessions().size() > kFewSessions) return look_for_wakeups(Duration::zero());
  for (Session* session : engine_.intake().sessions()) engine_.intake().unpark(*session);
}

/// Parks sessions that are idle for so long. True: every session is parked.
bool Worker::park_idle_sessions(Time now, Duration after) {
  bool all = true;
  for (Session* session : engine_.intake().sessions()) {
    if (session->parked) continue;
    if (now - session->last_active < after || !engine_.intake().park(*session)) all = false;
  }
  return all;
}

Duration Worker::time_to_sleep(Time now) const {
  const Time deadline = engine_.next_deadline();
  const Duration longest = naps_                     ? kNap
                           : engine_.ports().empty() ? kLongestSleep
                                                     : kLongestPortSleep;
  return deadline == kNever ? longest : std::min<Duration>(deadline - now, longest);
}

void Worker::look_for_wakeups(Duration timeout) {
  std::array<epoll_event, 32> events;
  const long count = options_.wait(epoll_.get(), events, timeout);
  for (long i = 0; i < count; ++i) {
    void* who = events[static_cast<std::size_t>(i)].data.ptr;
    if (who == this) {
      drain(wake_.get());
    } else if (who != nullptr) {
      engine_.intake().unpark(*static_cast<Session*>(who), wakeups_seen_);
    }
  }
  wakeups_seen_ = engine_.cpu().spent();
}

}  // namespace softhca::engine
