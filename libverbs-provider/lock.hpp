// SPDX-License-Identifier: Apache-2.0

// Locks of the provider. Applications may call it from any number of threads, on machines with
// fewer cores than threads. So a waiting thread soon yields its core.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <atomic>

namespace softhca::provider {

class SpinLock {
 public:
  void lock() {
    unsigned spins = 0;
    while (held_.exchange(true, std::memory_order_acquire))
      while (held_.load(std::memory_order_relaxed))
        if (++spins % kSpinsBeforeYield == 0) sched_yield();
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  static constexpr unsigned kSpinsBeforeYield = 64;
  std::atomic<bool> held_{false};
};

class Mutex {
 public:
  void lock() { pthread_mutex_lock(&mutex_); }
  void unlock() { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

template <class Lock>
class [[nodiscard]] Guard {
 public:
  explicit Guard(Lock& lock) : lock_(lock) { lock_.lock(); }
  ~Guard() { lock_.unlock(); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  Lock& lock_;
};

}  // namespace softhca::provider
