// SPDX-License-Identifier: Apache-2.0

// The state of an engine that the next engine takes over, in memory that may outlive the process.
// The layout is a header, then arrays by slot of a queue pair, of a region and of a window. All
// zero is the state of an engine without objects. Memory of an array that is not used has no pages.
//
// Engines of other releases read it. Reserved bytes are zero: a release may use them if zero means
// what earlier engines did, and if an earlier engine may ignore them. Any other change of the
// layout needs another version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/base/expected.hpp"
#include "daemon/engine/records/qp_durable.hpp"
#include "daemon/engine/records/time_wait.hpp"
#include "daemon/roce/transport/reliable/replays.hpp"
#include "daemon/tenant_memory/receive_ring.hpp"
#include "daemon/tenant_memory/window_table.hpp"

namespace softhca::engine {

class DurableState {
 public:
  /// Numbers of queue pairs and keys contain slots. So the next engine must have the same sizes.
  struct Sizes {
    std::uint32_t queue_pairs = 0;
    std::uint32_t memory_regions = 0;
    std::uint32_t memory_windows = 0;
    bool operator==(const Sizes&) const = default;
  };
  static std::size_t bytes_for(const Sizes& sizes);
  /// Returns the sizes of the engine that has left its state in the memory. Errors: why this engine
  /// cannot read it.
  static Expected<Sizes> check(std::span<const std::byte> memory);

  /// In memory of the process.
  explicit DurableState(const Sizes& sizes) : DurableState(sizes, {}) {}
  /// REQUIRES: `memory` is empty (as above), or has bytes_for() bytes, aligned to pages, that are
  /// zero or that check() accepts with these sizes. It outlives the object.
  DurableState(const Sizes& sizes, std::span<std::byte> memory);
  DurableState(const DurableState&) = delete;
  DurableState& operator=(const DurableState&) = delete;

  /// True if an earlier engine has left its state.
  bool is_inherited() const { return inherited_; }
  const Sizes& sizes() const { return sizes_; }
  /// Number of slots of queue pairs, including those of the daemon's own.
  std::uint32_t slots() const { return static_cast<std::uint32_t>(queue_pairs_.size()); }

  QpDurable& queue_pair(std::uint32_t slot) { return queue_pairs_[slot]; }
  /// Returns the place of the receive that the queue pair has drawn.
  shm::ReceiveWork& receive(std::uint32_t slot) { return receives_[slot]; }
  transport::ReplayPlaces replays(std::uint32_t slot) {
    return {
        replays_.subspan(std::size_t{slot} * transport::Replays::kMost, transport::Replays::kMost),
        &queue_pairs_[slot].replays_used};
  }
  std::span<TimeWait> time_waits() { return time_waits_; }
  memory::RegionMarks regions() { return {regions_, last_serial_}; }
  std::span<memory::Window> windows() { return windows_; }

 private:
  struct Header;
  struct Layout;
  /// Memory of the process; it has no pages before it is used.
  class OwnMemory {
   public:
    OwnMemory() = default;
    OwnMemory(const OwnMemory&) = delete;
    OwnMemory& operator=(const OwnMemory&) = delete;
    ~OwnMemory();
    std::span<std::byte> map(std::size_t bytes);

   private:
    std::span<std::byte> mapped_;
  };

  Sizes sizes_;
  OwnMemory own_;
  bool inherited_ = false;
  std::uint64_t* last_serial_ = nullptr;
  std::span<QpDurable> queue_pairs_;
  std::span<shm::ReceiveWork> receives_;
  std::span<TimeWait> time_waits_;
  std::span<memory::RegionMark> regions_;
  std::span<memory::Window> windows_;
  std::span<transport::Replay> replays_;
};

}  // namespace softhca::engine
