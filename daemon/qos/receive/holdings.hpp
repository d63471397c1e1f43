// SPDX-License-Identifier: Apache-2.0

// Buffers of a shared receive queue that are completed and that the consumer has not posted again,
// each with the queue pair that drew it (mechanism D2).
//
// A post gives back the oldest buffer of the same memory (first address of its scatter list). If
// none matches, because the consumer has more memory than the queue holds, it gives back the oldest
// of all. So every post gives back at most one. A consumer that keeps the messages of one sender
// while it reposts those of another does not confuse the two.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/base/intrusive_queue.hpp"

namespace softhca::receive {

class Holdings {
 public:
  /// Allocates. `capacity`: most buffers at once, at least 1.
  explicit Holdings(std::uint32_t capacity);

  static std::size_t bytes_for(std::uint32_t capacity) {
    return capacity * sizeof(Entry) + std::bit_ceil(capacity) * sizeof(Bucket);
  }

  std::uint32_t count() const { return count_; }
  bool full() const { return count_ == entries_.size(); }

  /// Adds a buffer. REQUIRES: !full().
  void add(std::uint64_t address, std::uint32_t owner);
  /// Gives back a buffer for a post of `address`. Returns its owner. REQUIRES: count() > 0.
  std::uint32_t give_back(std::uint64_t address);
  /// Gives back the oldest buffer. Returns its owner. REQUIRES: count() > 0.
  std::uint32_t give_back_oldest() { return remove(by_age_.front()); }

 private:
  struct Entry {
    IndexLink age;   ///< in by_age_, or free_
    IndexLink same;  ///< in its bucket
    std::uint64_t address = 0;
    std::uint32_t owner = 0;
  };
  using Bucket = IndexList<Entry, &Entry::same>;

  std::uint32_t remove(std::uint32_t i);
  Bucket& bucket_of(std::uint64_t address);

  std::vector<Entry> entries_;
  std::vector<Bucket> buckets_;
  IndexList<Entry, &Entry::age> by_age_, free_;
  std::uint32_t count_ = 0;
};

}  // namespace softhca::receive
