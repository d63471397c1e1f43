// SPDX-License-Identifier: Apache-2.0

#include "daemon/keeper/keeper.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace softhca::keeper {
namespace {

using std::chrono::seconds;

// An engine that makes no turns for so many ticks hangs. A peer that runs perftest gives up after
// 0.54 s without an answer.
constexpr unsigned kEngineTicks = 6;
// A minute. The control thread carries no data, and may wait for a slow disk.
constexpr unsigned kControlTicks = 1200;

// With so many crashes within this time, the keeper gives up.
constexpr std::size_t kMostCrashes = 3;
constexpr seconds kCrashTime{30};

constexpr int kExitFailure = 1;

std::string how_it_ended(int status) {
  if (!WIFSIGNALED(status)) return "exit code " + std::to_string(WEXITSTATUS(status));
  return std::string(::strsignal(WTERMSIG(status))) + " (signal " +
         std::to_string(WTERMSIG(status)) + ")";
}

void report(const char* priority, const std::string& text) {
  // A journal takes the priority from the beginning of the line (sd-daemon(3)).
  const bool journal = std::getenv("JOURNAL_STREAM") != nullptr;
  const std::string line = (journal ? priority : "") + ("softhcad: " + text) + "\n";
  [[maybe_unused]] const ssize_t put = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void report_warning(const std::string& text) { report(SD_WARNING, text); }

void report_failure(const std::string& text) {
  report(SD_ERR, text);
  ::sd_notifyf(0, "STATUS=%s", text.c_str());
}

Keeper::Keeper(Library library, int argc, char** argv)
    : library_(std::move(library)),
      installed_(library_.path()),
      argc_(argc),
      argv_(argv),
      shared_([] {
        void* const at = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (at == MAP_FAILED) throw std::bad_alloc();
        return new (at) Shared{};
      }()),
      engine_watch_(shared_->engine, kEngineTicks),
      control_watch_(shared_->control, kControlTicks) {}

int Keeper::run() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGUSR1}) sigaddset(&set, signal);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  signals_ = UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) {
    report_failure(std::string("signalfd: ") + std::strerror(errno));
    return kExitFailure;
  }
  // Processes that an adapter leaves behind become children of this one, which waits for them.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  std::uint64_t interval = 0;
  if (::sd_watchdog_enabled(0, &interval) > 0) watchdog_ = std::chrono::microseconds(interval / 2);
  for (const char* name : {"WATCHDOG_USEC", "WATCHDOG_PID"}) ::unsetenv(name);
  if (!start(Cause::kStart)) return kExitFailure;
  while (!exit_code_) step();
  return *exit_code_;
}

void Keeper::step() {
  std::array<pollfd, 3> ready = {{{signals_.get(), POLLIN, 0},
                                  {adapter_.calls.get(), POLLIN, 0},
                                  {upgrade_.verdict.get(), POLLIN, 0}}};
  ::poll(ready.data(), ready.size(), static_cast<int>(kTick.count()));
  // Calls come first: what an adapter said before it ended counts.
  if (ready[1].revents != 0) serve_calls();
  if (ready[2].revents != 0) take_verdict();
  if (ready[0].revents != 0) take_signals();
  if (!exit_code_ && Clock::now() >= next_tick_) tick();
}

void Keeper::take_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) {
      reap();
    } else if (signal == SIGUSR1) {
      upgrade_by_signal();
    } else if (signal != SIGHUP) {
      stop(signal);
    } else if (adapter_.process > 0) {
      ::kill(adapter_.process, signal);
    }
  }
}

void Keeper::upgrade_by_signal() {
  const char* const busy =
      upgrade_.library ? "another upgrade is in progress" : "no adapter serves now";
  if (const int error = begin_upgrade({}); error != 0)
    report_warning(std::string("no upgrade: ") + (error == EBUSY ? busy : std::strerror(error)));
}

/// Ends the adapter. One that is being replaced would leave everything to the next one, which then
/// ends in its place.
void Keeper::stop(int signal) {
  drop_trial();
  const bool serves = phase_ == Phase::kServing && !adapter_.killed;
  if (has_served_ && !serves && phase_ != Phase::kStopping) {
    stop_signal_ = signal;
    return;
  }
  phase_ = Phase::kStopping;
  if (adapter_.process > 0) ::kill(adapter_.process, signal);
}

void Keeper::reap() {
  int status = 0;
  for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0;) {
    if (pid != adapter_.process) continue;
    adapter_.stopped_for = 0;
    adapter_.stopped = WIFSTOPPED(status);
    adapter_.stopped_since = Clock::now();
    if (adapter_.stopped || WIFCONTINUED(status)) continue;
    serve_calls();  // its last ones
    adapter_.process = -1;
    ended(status);
  }
}

void Keeper::tick() {
  const auto now = Clock::now();
  next_tick_ = now + kTick;
  if (watchdog_.count() != 0 && now >= next_watchdog_) {
    ::sd_notify(0, "WATCHDOG=1");
    next_watchdog_ = now + watchdog_;
  }
  if (upgrade_.trial > 0 && now >= upgrade_.due)
    end_trial("its trial does not end: stopped after 10 s");
  if (phase_ == Phase::kServing) {
    if (adapter_.stopped) ++adapter_.stopped_for;
    const bool engine = engine_watch_.hangs(adapter_.process);
    const bool control = control_watch_.hangs(adapter_.process);
    if (!engine && !control && adapter_.stopped_for < kEngineTicks) return;
    if (engine && !adapter_.stopped) shared_->engine.fault.store(1);
    if (control && !adapter_.stopped) shared_->control.fault.store(1);
    if (!adapter_.killed)
      down_since_ = adapter_.stopped ? adapter_.stopped_since
                    : engine         ? engine_watch_.last_turn()
                                     : control_watch_.last_turn();
  } else if (phase_ == Phase::kStopping || !has_served_ || now < due_) {
    return;
  } else {
    shared_->control.fault.store(1);
  }
  if (!adapter_.killed) report_warning("the adapter hangs: ending it");
  adapter_.killed = true;
  ::kill(adapter_.process, SIGKILL);
}

void Keeper::ended(int status) {
  drop_trial();
  const bool is_willing = phase_ == Phase::kServing || phase_ == Phase::kRetiring;
  if (phase_ == Phase::kStopping || (phase_ == Phase::kStarting && !has_served_)) {
    finish(status);
  } else if (is_willing && WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    finish(status);  // by a signal to it alone
  } else if (phase_ == Phase::kStarting && adapter_.cause == Cause::kUpgrade) {
    report_warning("the new adapter does not start (" + how_it_ended(status) +
                   "): going back to the one before");
    std::swap(library_, *upgrade_.library);
    upgrade_.library.reset();
    replace(Cause::kRollback);
  } else {
    upgrade_.library.reset();
    crashed(adapter_.killed ? Cause::kHang : Cause::kCrash, status);
  }
}

void Keeper::crashed(Cause cause, int status) {
  const auto now = Clock::now();
  find_culprit();
  crashes_.push_back(now);
  while (now - crashes_.front() > kCrashTime) crashes_.pop_front();
  shared_->restarts.last_signal.store(WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  if (crashes_.size() >= kMostCrashes) {
    report_failure("the adapter has ended " + std::to_string(crashes_.size()) + " times in " +
                   std::to_string(kCrashTime.count()) + " s, at last " +
                   (cause == Cause::kHang ? "as it made no turns" : "by " + how_it_ended(status)) +
                   ": giving up");
    return finish(status);
  }
  if (cause == Cause::kCrash)
    report_warning("the adapter has ended by " + how_it_ended(status) + ": starting another one");
  replace(cause);
}

/// Notes what the thread at fault worked on. The engine also works for the control thread, which
/// then waits.
void Keeper::find_culprit() {
  const bool engine = shared_->engine.fault.load() != 0;
  std::uint64_t subject = engine ? shared_->engine.subject.load() : 0;
  if (subject == 0 && (engine || shared_->control.fault.load() != 0))
    subject = shared_->control.subject.load();
  shared_->faults.culprit.store(shared_->faults.last.exchange(subject) == subject ? subject : 0);
}

/// Ends the adapter, and starts the next one before it has ended: that takes time for each GiB that
/// it has mapped.
void Keeper::retired() {
  ::kill(adapter_.process, SIGKILL);
  std::swap(library_, *upgrade_.library);
  shared_->faults.culprit.store(0);
  replace(Cause::kUpgrade);
}

void Keeper::replace(Cause cause) {
  if (phase_ == Phase::kServing && !adapter_.killed) down_since_ = Clock::now();
  if (!start(cause)) exit_code_ = kExitFailure;
}

void Keeper::finish(int status) {
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  exit_code_ = signal != 0 ? 128 + signal : WEXITSTATUS(status);
  if (signal != SIGTERM && signal != SIGINT && signal != SIGHUP) return;
  // Ends as the adapter did, which a service manager may tell from a failure.
  sigset_t none;
  sigemptyset(&none);
  ::signal(signal, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::raise(signal);
}

}  // namespace softhca::keeper
