// SPDX-License-Identifier: Apache-2.0

// Threads that write to memory all the time and notice every write that is lost.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/unit/libverbs-provider/share/fake_daemon.hpp"

namespace softhca::provider {

/// Each writer counts up words of its own, spread over all pages, and knows what it wrote last.
class Writers {
 public:
  Writers(char* base, std::size_t pages, int threads) : base_(base), pages_(pages) {
    for (int i = 0; i < threads; ++i) {
      last_.emplace_back(pages, 0);
    }
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this, i] { run(i); });
  }
  void stop() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  std::size_t lost() const {
    std::size_t count = lost_;
    for (std::size_t i = 0; i < last_.size(); ++i) {
      for (std::size_t page = 0; page < pages_; ++page) {
        count += *word(static_cast<int>(i), page) != last_[i][page];
      }
    }
    return count;
  }

 private:
  std::uint64_t volatile* word(int writer, std::size_t page) const {
    return reinterpret_cast<std::uint64_t volatile*>(base_ + page * kPage) + writer * 8;
  }
  void run(int writer) {
    std::vector<std::uint64_t>& last = last_[static_cast<std::size_t>(writer)];
    while (!stop_) {
      for (std::size_t page = 0; page < pages_; ++page) {
        if (*word(writer, page) != last[page]) ++lost_;
        *word(writer, page) = ++last[page];
      }
    }
  }

  char* base_;
  std::size_t pages_;
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> lost_{0};
  std::vector<std::vector<std::uint64_t>> last_;
  std::vector<std::thread> threads_;
};

inline bool userfaultfd_works() {
  const int fd = KernelCalls::real().userfaultfd(1 /* UFFD_USER_MODE_ONLY */);
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

}  // namespace softhca::provider
