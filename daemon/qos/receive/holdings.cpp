// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/receive/holdings.hpp"

#include <bit>
#include <cassert>

namespace softhca::receive {
namespace {

// Most entries that a search visits. A consumer may choose addresses that share a bucket; after a
// longer search the oldest buffer is given back instead, which harms only that consumer.
constexpr unsigned kLongestSearch = 8;

}  // namespace

Holdings::Holdings(std::uint32_t capacity) : entries_(capacity), buckets_(std::bit_ceil(capacity)) {
  for (std::uint32_t i = 0; i < capacity; ++i) free_.push_back(entries_.data(), i);
}

/// Returns the bucket of an address. Buffers lie at regular distances, so the multiplication
/// spreads them over the upper bits.
Holdings::Bucket& Holdings::bucket_of(std::uint64_t address) {
  const std::uint64_t mixed = address * 0x9e3779b97f4a7c15u;
  return buckets_[(mixed >> 32) & (buckets_.size() - 1)];
}

void Holdings::add(std::uint64_t address, std::uint32_t owner) {
  assert(!full());
  const std::uint32_t i = free_.pop_front(entries_.data());
  entries_[i].address = address;
  entries_[i].owner = owner;
  by_age_.push_back(entries_.data(), i);
  bucket_of(address).push_back(entries_.data(), i);
  ++count_;
}

std::uint32_t Holdings::give_back(std::uint64_t address) {
  const Bucket& bucket = bucket_of(address);
  std::uint32_t i = bucket.front();
  for (unsigned n = 0; i != kNoIndex && n < kLongestSearch; ++n) {
    if (entries_[i].address == address) return remove(i);
    i = bucket.next(entries_.data(), i);
  }
  return give_back_oldest();
}

std::uint32_t Holdings::remove(std::uint32_t i) {
  by_age_.remove(entries_.data(), i);
  bucket_of(entries_[i].address).remove(entries_.data(), i);
  free_.push_front(entries_.data(), i);
  --count_;
  return entries_[i].owner;
}

}  // namespace softhca::receive
