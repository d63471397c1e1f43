// SPDX-License-Identifier: Apache-2.0

// Records of live objects, in memory that outlives the adapter (daemon/base/keeping.hpp). The
// adapter that follows makes the objects again from them, in the order in which they were made.
// Only the control thread uses it.
//
// Each change is one store: an adapter that ends at any instruction leaves the state before the
// change or the state after it. All writes between begin() and commit() are one change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/keeping.hpp"
#include "daemon/base/sealed_memory.hpp"
#include "daemon/live_records/record_format.hpp"

namespace softhca::records {

class RecordStore;

/// A record. Its end erases it. An empty one does nothing.
class Record {
 public:
  Record() = default;
  Record(Record&& other) noexcept
      : store_(std::exchange(other.store_, nullptr)), number_(other.number_) {}
  Record& operator=(Record&& other) noexcept {
    std::swap(store_, other.store_);
    std::swap(number_, other.number_);
    return *this;
  }
  ~Record() { erase(); }

  explicit operator bool() const { return store_ != nullptr; }
  /// Replaces the body. REQUIRES: RecordStore::reserve() has succeeded since the last write.
  void replace(std::span<const std::byte> body);
  void set_state(SlotState state);
  void erase();

 private:
  friend class RecordStore;
  Record(RecordStore& store, std::uint64_t number) : store_(&store), number_(number) {}

  RecordStore* store_ = nullptr;
  std::uint64_t number_ = 0;
};

/// A record that an earlier adapter wrote.
struct Adopted {
  Kind kind;
  SlotState state;
  std::vector<std::byte> body;
  Record record;
};

class RecordStore {
 public:
  static constexpr std::size_t kMaxBytes = 24 << 10;  ///< of a body

  /// Null: it holds nothing, and does nothing.
  explicit RecordStore(Keeping* keeping) : keeping_(keeping) {}
  RecordStore(const RecordStore&) = delete;
  RecordStore& operator=(const RecordStore&) = delete;

  /// Checks that this adapter can read the records that another one is writing: by their format and
  /// their kinds, as the records themselves change meanwhile. Errors: EBADMSG.
  static Outcome check_format(Keeping& keeping);

  bool is_active() const { return keeping_ != nullptr; }

  /// Takes up the records of the earlier adapter, after a check of all of them. Those of kinds that
  /// this adapter does not know are erased by end_restoring(). Errors: EBADMSG, a record or its
  /// memory is damaged, or of another version; nothing has changed then, but this process has no
  /// more way to the records. REQUIRES: nothing was written.
  Outcome adopt();
  /// Returns the records of adopt(), in the order in which they were made. Those that the caller
  /// does not take out of the result are erased with it. Call it once. All that is written from
  /// adopt() to end_restoring() is one change: if this adapter fails, another one needs the records
  /// as they were.
  std::vector<Adopted> take_adopted();
  void end_restoring() { commit(); }

  /// Makes room for the largest records, two of them. Errors: ENOMEM, EMFILE, EPIPE.
  Outcome reserve();
  /// Writes a record. REQUIRES: reserve() has succeeded since the last write, and the body has at
  /// most kMaxBytes.
  [[nodiscard]] Record write(Kind kind, std::span<const std::byte> body,
                             SlotState state = SlotState::kLive);

  /// Begins a change, which may be a part of one under way. States of records do not wait for it.
  void begin() { ++depth_; }
  /// Ends it. With the outermost one all that was written counts, by one store.
  void commit();
  /// Calls `action` when the change under way counts: what leaves the adapter says no more than the
  /// records. Without a change under way, calls it now. REQUIRES: it changes no record.
  void after_commit(std::function<void()> action);

  std::size_t size() const { return records_.size(); }

 private:
  friend class Record;
  using SlotIndex = std::uint32_t;

  using Slots = std::vector<SlotIndex>;  ///< of a record, by place
  class Check;

  Outcome grow();
  Slot& slot(SlotIndex index) const { return *slots_[index]; }
  MemoryHeader& first_header() const;
  /// True if the change under way has written them.
  bool is_new(const Slots& slots) const { return slot(slots.front()).change > committed_; }
  Slots put(std::uint64_t number, std::uint32_t kind, std::uint32_t generation,
            std::span<const std::byte> body, SlotState state);
  void free(const Slots& slots);
  void replace(std::uint64_t number, std::span<const std::byte> body);
  void set_state(std::uint64_t number, SlotState state);
  void erase(std::uint64_t number);

  Keeping* keeping_;
  std::vector<SealedMemory> memories_;
  std::vector<Slot*> slots_;  ///< of all memories
  std::vector<SlotIndex> free_;
  std::unordered_map<std::uint64_t, Slots> records_;  ///< by number
  std::vector<std::uint64_t> adopted_;                ///< numbers, ascending
  std::uint64_t last_number_ = 0;
  std::uint64_t committed_ = 0;                      ///< number of the last change
  unsigned depth_ = 0;                               ///< of the change under way; 0: there is none
  std::unordered_map<std::uint64_t, Slots> former_;  ///< what it replaces or ends, by number
  std::vector<std::function<void()>> after_commit_;
};

}  // namespace softhca::records
