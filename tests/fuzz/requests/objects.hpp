// SPDX-License-Identifier: Apache-2.0

// The objects of a program: the engine's part of each, the memory of its rings, and what the
// program does with that memory. Each object has memory of its own, so that AddressSanitizer sees
// the engine use it after the object has ended.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "daemon/engine/memory/memory_waits.hpp"
#include "daemon/engine/requests/memory_requests.hpp"
#include "daemon/engine/requests/queue_pair_requests.hpp"
#include "daemon/tenant_memory/process_memory.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/unit/engine/fixture/process.hpp"

namespace softhca::fuzz {

using engine::RingMemory;

/// A completion queue.
struct Cq {
  Cq(engine::Session& session, std::uint32_t entries, std::uint64_t handle, bool has_channel) {
    ring = make_ring(entries);
    engine.session = &session;
    engine.ring = shm::CompletionRing(ring->base(), entries);
    engine.user_handle = handle;
    engine.completion_end = has_channel ? 7 : -1;
  }
  static std::unique_ptr<RingMemory> make_ring(std::uint32_t entries) {
    return std::make_unique<RingMemory>(shm::CompletionRing::bytes_for(entries));
  }
  abi::CompletionRingHeader& header() {
    return *reinterpret_cast<abi::CompletionRingHeader*>(ring->base());
  }
  /// The program takes its completions.
  void poll() {
    const std::uint32_t entries = engine.ring.entries();
    auto* elements =
        reinterpret_cast<abi::CompletionElement*>(ring->base() + sizeof(abi::CompletionRingHeader));
    for (std::uint32_t i = 0; i < entries; ++i) {
      const std::uint32_t owner = elements[consumer & (entries - 1)].owner.load();
      if ((owner & abi::kPhaseBit) != abi::phase_of(consumer, entries)) break;
      header().consumer.store(++consumer);
    }
  }
  /// The program continues in the ring to which the engine has moved.
  void move(std::unique_ptr<RingMemory> to) {
    ring = std::move(to);
    consumer = 0;
  }

  engine::CompletionQueue engine;
  std::unique_ptr<RingMemory> ring;
  std::uint32_t consumer = 0;
  std::uint32_t users = 0;
};

/// A shared receive queue.
struct Srq {
  static constexpr std::uint32_t kMaxSge = 2;

  explicit Srq(std::uint32_t entries) : ring(make_ring(entries)) {}
  static std::unique_ptr<RingMemory> make_ring(std::uint32_t entries) {
    return std::make_unique<RingMemory>(shm::ReceiveRing::bytes_for(entries, kMaxSge));
  }
  std::atomic<std::uint32_t>& producer() {
    return reinterpret_cast<abi::ReceiveRingHeader*>(ring->base())->producer;
  }
  void post(std::span<const abi::ScatterGather> list) {
    std::byte* const at = ring->base() + sizeof(abi::ReceiveRingHeader) +
                          (posted & (engine.ring.entries() - 1)) * abi::receive_stride(kMaxSge);
    const abi::ReceiveElement element{posted, static_cast<std::uint32_t>(list.size()), 0};
    std::memcpy(at, &element, sizeof element);
    std::ranges::copy(list, reinterpret_cast<abi::ScatterGather*>(at + sizeof element));
    producer().store(++posted);
  }

  engine::SharedReceiveQueue engine;
  std::unique_ptr<RingMemory> ring;
  std::uint32_t posted = 0;
  std::uint32_t max_wr = 0;
  std::uint32_t users = 0;
  Cq* cq = nullptr;  ///< XRC: of its receives
};

/// A queue pair, which several programs hold if it is an XRC target.
struct Qp {
  explicit Qp(const engine::QpOptions& options) : test(options) {}

  engine::TestQp test;
  engine::QueuePair& engine = test.qp;
  Cq* send = nullptr;
  Cq* receive = nullptr;
  Srq* srq = nullptr;
  engine::SendWait waited;
  std::uint32_t holders = 1;
};

/// Memory of a process that the engine reaches through it. It may be slow, absent or busy.
class ProcessBytes final : public memory::ProcessMemory {
 public:
  ProcessBytes(std::uint64_t base, std::size_t bytes, engine::MemoryReach reach)
      : base_(base), bytes_(bytes), reach_(std::move(reach)) {}

  Verdict read(std::span<iovec> local, std::span<iovec> remote) override {
    return move(local, remote, false);
  }
  Verdict write(std::span<iovec> local, std::span<iovec> remote) override {
    return move(local, remote, true);
  }

  std::uint8_t busy = 0;    ///< as many accesses are to be made again
  std::uint8_t absent = 0;  ///< as many accesses fail
  Duration slow{};          ///< time that an access takes

 private:
  Verdict move(std::span<iovec> local, std::span<iovec> remote, bool writes) {
    if (busy != 0 && reach_.waits.put_off()) {
      --busy;
      return Verdict::kBusy;
    }
    if (slow != Duration::zero()) reach_.waited(slow);
    if (absent != 0) {
      --absent;
      return Verdict::kLocalProtection;
    }
    for (const iovec& there : remote) {
      const auto addr = reinterpret_cast<std::uint64_t>(there.iov_base);
      require(addr >= base_ && addr - base_ <= bytes_.size() &&
                  there.iov_len <= bytes_.size() - (addr - base_),
              "the engine keeps to the region");
      move(local, bytes_.data() + (addr - base_), there.iov_len, writes);
    }
    return Verdict::kOk;
  }
  static void move(std::span<iovec>& local, std::byte* far, std::size_t bytes, bool writes) {
    while (bytes != 0) {
      iovec& near = local.front();
      const std::size_t part = std::min(bytes, near.iov_len);
      if (part != 0)
        writes ? std::memcpy(far, near.iov_base, part) : std::memcpy(near.iov_base, far, part);
      far += part;
      bytes -= part;
      near.iov_base = static_cast<std::byte*>(near.iov_base) + part;
      near.iov_len -= part;
      if (near.iov_len == 0) local = local.subspan(1);
    }
  }

  std::uint64_t base_;
  std::vector<std::byte> bytes_;
  engine::MemoryReach reach_;
};

/// A memory region.
struct Mr {
  std::uint32_t key = 0;
  std::uint64_t counted = 0;      ///< bytes that it counts as registered
  std::vector<std::byte> mapped;  ///< its memory as far as it is shared
  std::shared_ptr<ProcessBytes> process;
  bool is_null = false;
};

}  // namespace softhca::fuzz
