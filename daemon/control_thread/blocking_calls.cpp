// SPDX-License-Identifier: Apache-2.0

#include "daemon/control_thread/blocking_calls.hpp"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace softhca::control {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kSlow = std::chrono::seconds(1);  // a thread may lack the processor
constexpr auto kEnd = std::chrono::milliseconds(100);
constexpr std::size_t kMany = 4096;
constexpr auto kKept = std::chrono::seconds(1);  // how long a thread waits for more to do

}  // namespace

struct BlockingCalls::Work {
  struct Pending {
    Step step;
    Call then;  ///< only the control thread calls and destroys it
    bool closes = false;
  };
  struct Owner {
    std::deque<Pending> calls;  ///< the first one is being made
    std::size_t closing = 0;    ///< descriptors to be closed
    bool has_thread = false;
    bool calling = false;
    Clock::time_point since;
    std::condition_variable more;

    bool slow() const { return calling && Clock::now() - since >= kSlow; }
  };

  std::mutex mutex;
  std::map<std::string, Owner> owners;  ///< those with calls or a thread
  /// `then` of calls that have returned, with their owners.
  std::deque<std::pair<std::string, Call>> over;
  UniqueFd is_over{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::size_t threads = 0;
  std::condition_variable ended;  ///< signalled when a thread has ended
  bool ending = false;            ///< no more calls will come
  bool stop = false;              ///< the remaining calls are not made

  void serve(const std::string& name);
  static void add(const std::shared_ptr<Work>& work, const std::string& name, Pending pending);
  void make_one(const std::string& name, Owner& owner, std::unique_lock<std::mutex>& lock);
  static void start_thread(const std::shared_ptr<Work>& work, const std::string& name);
};

void BlockingCalls::Work::make_one(const std::string& name, Owner& owner,
                                   std::unique_lock<std::mutex>& lock) {
  owner.calling = true;
  owner.since = Clock::now();
  Step step = std::move(owner.calls.front().step);
  lock.unlock();
  const bool more = step();
  if (!more) step = {};
  lock.lock();
  owner.calling = false;
  Pending& made = owner.calls.front();
  if (more) {
    made.step = std::move(step);
    owner.calls.push_back(std::move(made));
  } else if (made.then) {
    over.emplace_back(name, std::move(made.then));
    ::eventfd_write(is_over.get(), 1);
  }
  owner.closing -= !more && made.closes;
  owner.calls.pop_front();
}

/// Runs the thread of one owner, until the owner has had no call for a while.
void BlockingCalls::Work::serve(const std::string& name) {
  std::unique_lock lock(mutex);
  Owner& owner = owners.find(name)->second;
  bool more = true;
  while (more) {
    while (!stop && !owner.calls.empty()) make_one(name, owner, lock);
    more =
        !ending && owner.more.wait_for(lock, kKept, [&] { return ending || !owner.calls.empty(); });
  }
  owner.has_thread = false;
  if (owner.calls.empty()) owners.erase(name);
  --threads;
  ended.notify_all();
}

/// Starts the thread of an owner. If the kernel refuses it, tick() tries again.
void BlockingCalls::Work::start_thread(const std::shared_ptr<Work>& work, const std::string& name) {
  try {
    std::thread thread([work, name] {
      ::pthread_setname_np(::pthread_self(), "blocking-calls");
      work->serve(name);
    });
    thread.detach();
    work->owners[name].has_thread = true;
    ++work->threads;
  } catch (const std::system_error&) {
  }
}

void BlockingCalls::Work::add(const std::shared_ptr<Work>& work, const std::string& name,
                              Pending pending) {
  Owner& owner = work->owners[name];
  owner.calls.push_back(std::move(pending));
  if (!owner.has_thread) start_thread(work, name);
  owner.more.notify_one();
}

BlockingCalls::BlockingCalls() : work_(std::make_shared<Work>()) {}

BlockingCalls::~BlockingCalls() {
  std::vector<Call> forgotten;  // destroyed without the lock
  std::unique_lock lock(work_->mutex);
  work_->ending = true;
  for (auto& [name, owner] : work_->owners) owner.more.notify_all();
  work_->ended.wait_for(lock, kEnd, [&] { return work_->threads == 0; });
  work_->stop = true;
  // A thread that returns later must not destroy what they hold.
  for (auto& [name, owner] : work_->owners)
    for (Work::Pending& pending : owner.calls) forgotten.push_back(std::exchange(pending.then, {}));
  for (auto& [name, then] : std::exchange(work_->over, {})) forgotten.push_back(std::move(then));
}

void BlockingCalls::make(const std::string& owner, Call call, Call then) {
  auto once = [call = std::move(call)] {
    call();
    return false;
  };
  make_steps(owner, std::move(once), std::move(then));
}

void BlockingCalls::make_steps(const std::string& owner, Step step, Call then) {
  const std::lock_guard lock(work_->mutex);
  Work::add(work_, owner, {std::move(step), std::move(then)});
}

void BlockingCalls::close(UniqueFd socket, const std::string& owner) {
  const auto close = [fd = socket.release()] {
    ::close(fd);
    return false;
  };
  const std::lock_guard lock(work_->mutex);
  Work::add(work_, owner, {close, {}, true});
  ++work_->owners[owner].closing;
}

int BlockingCalls::fd() const { return work_->is_over.get(); }

void BlockingCalls::finish() {
  eventfd_t count;
  ::eventfd_read(work_->is_over.get(), &count);
  for (;;) {
    Call then;  // destroyed without the lock
    {
      const std::lock_guard lock(work_->mutex);
      if (work_->over.empty()) return;
      then = std::move(work_->over.front().second);
      work_->over.pop_front();
    }
    then();
  }
}

void BlockingCalls::forget(const std::string& owner) {
  std::vector<Call> forgotten;  // destroyed without the lock
  const std::lock_guard lock(work_->mutex);
  const auto found = work_->owners.find(owner);
  if (found != work_->owners.end())
    for (Work::Pending& pending : found->second.calls)
      forgotten.push_back(std::exchange(pending.then, {}));
  for (auto& [name, then] : work_->over)
    if (name == owner) forgotten.push_back(std::move(then));
  std::erase_if(work_->over, [&](const auto& over) { return over.first == owner; });
}

bool BlockingCalls::stuck(const std::string& owner) const {
  const std::lock_guard lock(work_->mutex);
  const auto found = work_->owners.find(owner);
  return found != work_->owners.end() && (found->second.slow() || found->second.closing >= kMany);
}

std::size_t BlockingCalls::waiting() const {
  const std::lock_guard lock(work_->mutex);
  std::size_t sum = 0;
  for (const auto& [name, owner] : work_->owners) sum += owner.calls.size();
  return sum;
}

void BlockingCalls::tick() {
  const std::lock_guard lock(work_->mutex);
  for (auto& [name, owner] : work_->owners)
    if (!owner.has_thread) Work::start_thread(work_, name);
}

}  // namespace softhca::control
