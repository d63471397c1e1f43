// SPDX-License-Identifier: Apache-2.0

// How the keeper starts an adapter: a process that loads its library.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "daemon/keeper/keeper.hpp"

namespace softhca::keeper {
namespace {

constexpr int kExitNoAdapter = 1;
constexpr std::chrono::seconds kTimeToStart{60}, kTimeToTry{10};

bool make_pair(UniqueFd& ours, UniqueFd& theirs) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return false;
  ours = UniqueFd(ends[0]);
  theirs = UniqueFd(ends[1]);
  return true;
}

/// Loads a library, and returns its function. Null: `why` says what is wrong.
template <class Function>
Function load(const Library& library, const char* name, std::string& why) {
  void* const loaded = ::dlopen(library.loadable().c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const found = loaded != nullptr ? ::dlsym(loaded, name) : nullptr;
  if (const char* const error = ::dlerror(); error != nullptr) why = error;
  return reinterpret_cast<Function>(found);
}

}  // namespace

std::optional<Library> Library::open(const std::string& path, std::string& why) {
  Library library;
  library.path_ = path;
  // To open a FIFO would wait for its writer.
  library.file_ = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat file {};
  if (!library.file_ || ::fstat(library.file_.get(), &file) != 0) {
    why = path + ": " + std::strerror(errno);
    return std::nullopt;
  }
  std::error_code error;
  library.real_path_ = std::filesystem::read_symlink(library.descriptor_path(), error);
  if (S_ISREG(file.st_mode)) return library;
  why = path + ": not a regular file";
  return std::nullopt;
}

std::string Library::loadable() const {
  struct stat now {
  }, then{};
  if (::stat(real_path_.c_str(), &now) == 0 && ::fstat(file_.get(), &then) == 0 &&
      now.st_dev == then.st_dev && now.st_ino == then.st_ino)
    return real_path_;
  return descriptor_path();
}

std::string Library::descriptor_path() const {
  return "/proc/self/fd/" + std::to_string(file_.get());
}

/// Starts an adapter. Returns false if there can be no process for it.
bool Keeper::start(Cause cause) {
  adapter_ = {};
  adapter_.cause = cause;
  UniqueFd their_calls, their_orders;
  const bool paired =
      make_pair(adapter_.calls, their_calls) && make_pair(adapter_.orders, their_orders);
  phase_ = phase_ == Phase::kStopping ? phase_ : Phase::kStarting;
  due_ = Clock::now() + kTimeToStart;
  for (Pulse* const pulse : {&shared_->engine, &shared_->control}) {
    pulse->thread.store(0);
    pulse->asleep.store(0);
    pulse->subject.store(0);
    pulse->fault.store(0);
  }
  adapter_.process = paired ? ::fork() : -1;
  if (adapter_.process < 0)
    report_failure(std::string("no process for the adapter: ") + std::strerror(errno));
  if (adapter_.process != 0) return adapter_.process > 0;
  adapter_.calls.reset();
  adapter_.orders.reset();
  signals_.reset();
  const std::vector<KeptEntry> kept = kept_.entries();
  Handover handover = handover_of(kept, cause);
  handover.calls = their_calls.release();
  handover.orders = their_orders.release();
  become_adapter(handover);
}

/// Returns what an adapter gets, without its ends of sockets.
Handover Keeper::handover_of(const std::vector<KeptEntry>& kept, Cause cause) const {
  return {.version = kHandoverVersion,
          .bytes = sizeof(Handover),
          .calls = -1,
          .orders = -1,
          .shared = shared_,
          .kept = kept.data(),
          .kept_count = kept.size(),
          .cause = static_cast<std::uint32_t>(cause),
          .reserved = 0};
}

/// Runs the adapter in this process. All signals but SIGCHLD stay blocked: it takes them when it is
/// ready for them.
void Keeper::become_adapter(const Handover& handover) const {
  sigset_t child_ended;
  sigemptyset(&child_ended);
  sigaddset(&child_ended, SIGCHLD);
  ::sigprocmask(SIG_UNBLOCK, &child_ended, nullptr);
  ::prctl(PR_SET_NAME, "softhca-adapter");
  ::setpgid(0, 0);  // signals of a terminal come by the keeper alone
  std::string why;
  const auto adapter = load<AdapterFunction>(library_, kAdapterFunction, why);
  if (adapter == nullptr) {
    report_failure("no adapter: " + why);
    std::exit(kExitNoAdapter);
  }
  std::exit(adapter(&handover, argc_, argv_));
}

/// Starts a process that tries if the next library fits what is kept. The adapter serves meanwhile.
void Keeper::start_trial() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return;
  upgrade_.verdict = UniqueFd(ends[0]);
  upgrade_.due = Clock::now() + kTimeToTry;
  const UniqueFd verdict(ends[1]);
  const pid_t keeper = ::getpid();
  upgrade_.trial = ::fork();
  if (upgrade_.trial < 0) upgrade_.verdict.reset();
  if (upgrade_.trial != 0) return;
  // It has copies of all sockets.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != keeper) std::exit(0);
  adapter_.calls.reset();
  adapter_.orders.reset();
  ::prctl(PR_SET_NAME, "softhca-trial");
  std::string why;
  const auto fits = load<TrialFunction>(*upgrade_.library, kTrialFunction, why);
  const std::vector<KeptEntry> kept = kept_.entries();
  std::vector<char> text(kMostText);
  if (fits != nullptr) {
    const Handover handover = handover_of(kept, Cause::kUpgrade);
    why = fits(&handover, argc_, argv_, text.data(), text.size()) ? kFits : text.data();
  }
  [[maybe_unused]] const ssize_t put = ::write(verdict.get(), why.data(), why.size());
  std::exit(0);
}

}  // namespace softhca::keeper
