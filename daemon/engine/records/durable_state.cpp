// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/records/durable_state.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>

#include "daemon/base/store_order.hpp"
#include "daemon/engine/records/qp_table.hpp"

namespace softhca::engine {
namespace {

constexpr std::uint64_t kMagic = 0x65746174'73616368;  // "hcastate"
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kPage = 4096;
constexpr std::uint32_t kMostQueuePairs = 1u << 20;

}  // namespace

/// At the start of the memory.
struct DurableState::Header {
  std::uint64_t magic;  ///< 0: no engine has used the memory
  std::uint32_t version;
  std::uint32_t queue_pairs;
  std::uint32_t memory_regions;
  std::uint32_t memory_windows;
  // Bytes of one element of each array.
  std::uint32_t queue_pair_bytes;
  std::uint32_t receive_bytes;
  std::uint32_t region_bytes;
  std::uint32_t window_bytes;
  std::uint32_t replay_bytes;
  std::uint32_t replays;      ///< of a queue pair
  std::uint64_t last_serial;  ///< of a region
  std::uint32_t time_wait_bytes;
  std::uint32_t reserved;

  static Header of(const Sizes& sizes) {
    return {.magic = kMagic,
            .version = kVersion,
            .queue_pairs = sizes.queue_pairs,
            .memory_regions = sizes.memory_regions,
            .memory_windows = sizes.memory_windows,
            .queue_pair_bytes = sizeof(QpDurable),
            .receive_bytes = sizeof(shm::ReceiveWork),
            .region_bytes = sizeof(memory::RegionMark),
            .window_bytes = sizeof(memory::Window),
            .replay_bytes = sizeof(transport::Replay),
            .replays = transport::Replays::kMost,
            .last_serial = 0,
            .time_wait_bytes = sizeof(TimeWait),
            .reserved = 0};
  }
};

/// Where the arrays begin.
struct DurableState::Layout {
  static_assert(sizeof(Header) == 64);

  explicit Layout(const Sizes& sizes)
      : slots(QpTable::slots_for(sizes.queue_pairs) + QpTable::kOwn) {
    const auto place = [this](std::size_t count, std::size_t bytes) {
      const std::size_t at = end;
      end += (count * bytes + kPage - 1) / kPage * kPage;
      return at;
    };
    place(1, sizeof(Header));
    queue_pairs = place(slots, sizeof(QpDurable));
    receives = place(slots, sizeof(shm::ReceiveWork));
    time_waits = place(TimeWaitTable::kPlaces, sizeof(TimeWait));
    regions = place(sizes.memory_regions, sizeof(memory::RegionMark));
    windows = place(sizes.memory_windows, sizeof(memory::Window));
    replays = place(std::size_t{slots} * transport::Replays::kMost, sizeof(transport::Replay));
  }

  std::uint32_t slots;
  std::size_t queue_pairs, receives, time_waits, regions, windows, replays;
  std::size_t end = 0;
};

std::size_t DurableState::bytes_for(const Sizes& sizes) { return Layout(sizes).end; }

Expected<DurableState::Sizes> DurableState::check(std::span<const std::byte> memory) {
  const auto refuse = [](const std::string& why) {
    return Error{"state of the earlier engine: " + why, EPROTO};
  };
  Header header;
  if (memory.size() < sizeof header)
    return refuse(std::to_string(memory.size()) + " bytes, a header alone has " +
                  std::to_string(sizeof header));
  std::memcpy(&header, memory.data(), sizeof header);
  if (header.magic != kMagic) return refuse("it does not begin with the mark of such state");
  if (header.version != kVersion)
    return refuse("version " + std::to_string(header.version) + ", this adapter reads version " +
                  std::to_string(kVersion));
  const Sizes sizes{header.queue_pairs, header.memory_regions, header.memory_windows};
  if (sizes.queue_pairs > kMostQueuePairs ||
      sizes.memory_regions > memory::KeyTable::kMaxCapacity ||
      sizes.memory_windows > memory::WindowTable::kMaxCapacity)
    return refuse("its sizes are beyond those of any adapter");
  Header wanted = Header::of(sizes);
  wanted.last_serial = header.last_serial;
  if (std::memcmp(&header, &wanted, sizeof header) != 0)
    return refuse("its elements have other sizes than those of this adapter");
  if (memory.size() < bytes_for(sizes))
    return refuse(std::to_string(memory.size()) + " bytes, expected " +
                  std::to_string(bytes_for(sizes)));
  return sizes;
}

DurableState::DurableState(const Sizes& sizes, std::span<std::byte> memory) : sizes_(sizes) {
  const Layout layout(sizes);
  if (memory.empty()) memory = own_.map(layout.end);
  assert(memory.size() >= layout.end);
  auto* const header = reinterpret_cast<Header*>(memory.data());
  inherited_ = header->magic != 0;
  if (!inherited_) {
    Header fresh = Header::of(sizes);
    fresh.magic = 0;
    *header = fresh;
    keep_store_order();
    header->magic = kMagic;
  }
  const auto array = [&]<class T>(std::size_t at, std::size_t count, std::span<T>& out) {
    out = {reinterpret_cast<T*>(memory.data() + at), count};
  };
  array(layout.queue_pairs, layout.slots, queue_pairs_);
  array(layout.receives, layout.slots, receives_);
  array(layout.time_waits, TimeWaitTable::kPlaces, time_waits_);
  array(layout.regions, sizes.memory_regions, regions_);
  array(layout.windows, sizes.memory_windows, windows_);
  array(layout.replays, std::size_t{layout.slots} * transport::Replays::kMost, replays_);
  last_serial_ = &header->last_serial;
}

std::span<std::byte> DurableState::OwnMemory::map(std::size_t bytes) {
  void* const base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) throw std::bad_alloc();
  return mapped_ = {static_cast<std::byte*>(base), bytes};
}

DurableState::OwnMemory::~OwnMemory() {
  if (!mapped_.empty()) ::munmap(mapped_.data(), mapped_.size());
}

}  // namespace softhca::engine
