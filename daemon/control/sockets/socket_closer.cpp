#include "daemon/control/sockets/socket_closer.hpp"

#include <pthread.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace softhca::control {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kSlow = std::chrono::milliseconds(100);
constexpr std::size_t kMany = 4096;

}  // namespace

struct SocketCloser::Work {
  struct Owner {
    std::deque<int> sockets;  ///< the first one is the one that is being closed
    bool closing = false;
    bool left = false;  ///< to the thread that does not come back, which ends when it does
    Clock::time_point since;

    bool slow() const { return closing && Clock::now() - since >= kSlow; }
  };

  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, Owner> owners;  ///< those with sockets
  std::deque<std::string> turns;        ///< owners of whose sockets none is being closed
  std::size_t threads = 0;              ///< but those that do not come back
  bool stop = false;

  void serve(std::unique_lock<std::mutex>& lock);
  bool close_one(std::unique_lock<std::mutex>& lock);
  static void start_thread(const std::shared_ptr<Work>& work);
};

/// False: the thread has been replaced.
bool SocketCloser::Work::close_one(std::unique_lock<std::mutex>& lock) {
  const std::string name = std::move(turns.front());
  turns.pop_front();
  Owner& owner = owners.find(name)->second;
  owner.closing = true;
  owner.since = Clock::now();
  const int socket = owner.sockets.front();
  lock.unlock();
  ::close(socket);
  lock.lock();
  const bool replaced = std::exchange(owner.left, false);
  owner.closing = false;
  owner.sockets.pop_front();
  if (owner.sockets.empty())
    owners.erase(name);
  else
    turns.push_back(name);
  changed.notify_all();
  return !replaced;
}

void SocketCloser::Work::serve(std::unique_lock<std::mutex>& lock) {
  for (;;) {
    changed.wait(lock, [&] { return stop || !turns.empty(); });
    if (stop) break;
    if (!close_one(lock)) return;
  }
  --threads;
  changed.notify_all();
}

/// Nothing happens where the system has no thread left: tick() tries again.
void SocketCloser::Work::start_thread(const std::shared_ptr<Work>& work) {
  try {
    std::thread thread([work] {
      ::pthread_setname_np(::pthread_self(), "closing");
      std::unique_lock lock(work->mutex);
      work->serve(lock);
    });
    thread.detach();
    ++work->threads;
  } catch (const std::system_error&) {
  }
}

bool closing_collects_others() {
  static const bool collects = [] {
    utsname system{};
    unsigned major = 0, minor = 0;
    if (::uname(&system) != 0) return true;
    const int parts = std::sscanf(system.release, "%u.%u", &major, &minor);
    return parts != 2 || major < 6 || (major == 6 && minor < 10);
  }();
  return collects;
}

SocketCloser::SocketCloser() : work_(std::make_shared<Work>()) {}

SocketCloser::~SocketCloser() {
  std::unique_lock lock(work_->mutex);
  work_->stop = true;
  work_->changed.notify_all();
  work_->changed.wait_for(lock, kSlow, [&] { return work_->threads == 0; });
}

void SocketCloser::close(UniqueFd socket, const std::string& owner) {
  const std::lock_guard lock(work_->mutex);
  Work::Owner& of = work_->owners[owner];
  if (of.sockets.empty()) work_->turns.push_back(owner);
  of.sockets.push_back(socket.release());
  if (work_->threads == 0) Work::start_thread(work_);
  work_->changed.notify_all();
}

bool SocketCloser::stuck(const std::string& owner) const {
  const std::lock_guard lock(work_->mutex);
  const auto found = work_->owners.find(owner);
  return found != work_->owners.end() &&
         (found->second.slow() || found->second.sockets.size() >= kMany);
}

std::size_t SocketCloser::waiting() const {
  const std::lock_guard lock(work_->mutex);
  std::size_t sum = 0;
  for (const auto& [name, owner] : work_->owners) sum += owner.sockets.size();
  return sum;
}

void SocketCloser::tick() {
  const std::lock_guard lock(work_->mutex);
  for (auto& [name, owner] : work_->owners) {
    if (owner.left || !owner.slow()) continue;
    owner.left = true;
    --work_->threads;
  }
  if (work_->threads == 0 && !work_->turns.empty()) Work::start_thread(work_);
}

}  // namespace softhca::control
