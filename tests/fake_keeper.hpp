// SPDX-License-Identifier: Apache-2.0

// What outlives an adapter, in the process of a test: a keeper, and an end of it for each adapter.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "daemon/base/keeping.hpp"
#include "daemon/base/system_error.hpp"

namespace softhca {

class FakeKeeper {
 public:
  struct Kept {
    UniqueFd fd;
    std::byte* base = nullptr;
    std::size_t bytes = 0;
    KeptRole role = KeptRole::kNone;
  };

  FakeKeeper() = default;
  ~FakeKeeper() { clear(); }
  FakeKeeper(const FakeKeeper&) = delete;
  FakeKeeper& operator=(const FakeKeeper&) = delete;

  /// Number of what is kept for objects, not for records and the engine.
  std::size_t objects() const {
    const std::lock_guard lock(lock_);
    std::size_t count = 0;
    for (const auto& [id, kept] : kept_) count += kept.role == KeptRole::kNone;
    return count;
  }
  void clear() {
    for (auto& [id, kept] : kept_)
      if (kept.base != nullptr) ::munmap(kept.base, kept.bytes);
    kept_.clear();
    last_ = 0;
  }
  const std::map<KeptId, Kept>& all() const { return kept_; }
  /// Holds what an adapter of another time has given.
  void put(KeptId id, Kept kept) {
    kept_[id] = std::move(kept);
    last_ = std::max(last_, id);
  }
  /// Requests that an adapter had to wait for.
  std::size_t round_trips() const { return round_trips_; }
  /// Is called after something was dropped, at which the adapter may end.
  std::function<void()> dropped;
  std::span<std::byte> records() {
    for (auto& [id, kept] : kept_)
      if (kept.role == KeptRole::kRecords) return {kept.base, kept.bytes};
    return {};
  }

 private:
  friend class FakeKeeping;
  mutable std::mutex lock_;
  std::map<KeptId, Kept> kept_;
  KeptId last_ = 0;
  std::size_t round_trips_ = 0;
};

/// The end of one adapter.
class FakeKeeping final : public Keeping {
 public:
  explicit FakeKeeping(FakeKeeper& keeper) : keeper_(keeper), inherited_(keeper.last_) {}

  /// From now on the adapter changes nothing of what is kept, as if its process had ended.
  void retire() { retired_ = true; }
  /// Drops what an earlier adapter gave and this one has not asked for.
  void drop_rest() {
    std::vector<KeptId> rest;
    for (const auto& [id, kept] : keeper_.kept_)
      if (id <= inherited_ && !taken_.contains(id)) rest.push_back(id);
    for (const KeptId id : rest) drop(id);
  }
  /// Further requests to keep fail.
  void refuse(bool refuses) {
    const std::lock_guard lock(keeper_.lock_);
    refuses_ = refuses;
  }

  Expected<KeptId> keep(int fd) override { return add(fd, nullptr, 0, KeptRole::kNone); }
  Expected<KeptId> keep_memory(int fd, std::size_t bytes, KeptRole role) override {
    void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return system_error("keeping memory");
    auto kept = add(fd, static_cast<std::byte*>(at), bytes, role);
    if (!kept) ::munmap(at, bytes);
    return kept;
  }
  void close_descriptor(KeptId id) override {
    const std::lock_guard lock(keeper_.lock_);
    ++keeper_.round_trips_;
    if (const auto found = keeper_.kept_.find(id); !retired_ && found != keeper_.kept_.end())
      found->second.fd.reset();
  }
  void drop(KeptId id) override {
    const std::lock_guard lock(keeper_.lock_);
    ++keeper_.round_trips_;
    const auto found = keeper_.kept_.find(id);
    if (retired_ || found == keeper_.kept_.end()) return;
    if (found->second.base != nullptr) ::munmap(found->second.base, found->second.bytes);
    keeper_.kept_.erase(found);
    if (keeper_.dropped) keeper_.dropped();
  }

  UniqueFd descriptor(KeptId id) override {
    const std::lock_guard lock(keeper_.lock_);
    const auto found = keeper_.kept_.find(id);
    if (found == keeper_.kept_.end() || !found->second.fd) return {};
    taken_.insert(id);
    return UniqueFd(::fcntl(found->second.fd.get(), F_DUPFD_CLOEXEC, 0));
  }
  /// A second mapping of the same pages, as a fork makes one: sealed memory cannot be mapped.
  std::span<std::byte> memory(KeptId id) override {
    const std::lock_guard lock(keeper_.lock_);
    const auto found = keeper_.kept_.find(id);
    if (found == keeper_.kept_.end() || found->second.base == nullptr) return {};
    if (!mapped_.insert(id).second) return {};  // the caller has it
    taken_.insert(id);
    void* at = ::mremap(found->second.base, 0, found->second.bytes, MREMAP_MAYMOVE);
    if (at == MAP_FAILED) return {};
    given_.push_back({static_cast<std::byte*>(at), found->second.bytes});
    return given_.back();
  }
  /// The mappings that memory() has returned.
  const std::vector<std::span<std::byte>>& given() const { return given_; }
  KeptId find(KeptRole role, KeptId after) override {
    const std::lock_guard lock(keeper_.lock_);
    for (auto at = keeper_.kept_.upper_bound(after); at != keeper_.kept_.end(); ++at)
      if (at->second.role == role && at->second.base != nullptr) return at->first;
    return 0;
  }

 private:
  Expected<KeptId> add(int fd, std::byte* base, std::size_t bytes, KeptRole role) {
    const std::lock_guard lock(keeper_.lock_);
    ++keeper_.round_trips_;
    if (refuses_ || retired_) return Error{"the keeper has too many descriptors", EMFILE};
    UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!copy) return system_error("keeping a descriptor");
    keeper_.kept_[++keeper_.last_] = {std::move(copy), base, bytes, role};
    return keeper_.last_;
  }

  FakeKeeper& keeper_;
  bool retired_ = false;
  bool refuses_ = false;
  const KeptId inherited_;  ///< the last number that an earlier adapter was given
  std::set<KeptId> mapped_;
  std::vector<std::span<std::byte>> given_;
  std::set<KeptId> taken_;
};

}  // namespace softhca
