// SPDX-License-Identifier: Apache-2.0

// The daemon's views of memory that a process shares, each over exactly the memory it was given,
// while the process writes whatever it likes between two looks.
#include <array>
#include <memory>
#include <vector>

#include "daemon/tenant_memory/completion_ring.hpp"
#include "daemon/tenant_memory/receive_ring.hpp"
#include "daemon/tenant_memory/send_ring_overflow_buffer.hpp"
#include "daemon/tenant_memory/session_view.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/unit/tenant_memory/shared_area.hpp"

namespace softhca::shm {
namespace {

using fuzz::Input;
using fuzz::require;

/// Memory of exactly that size, so that a byte beyond it shows, and a process that writes to it.
class Shared {
 public:
  explicit Shared(std::size_t bytes) : area_(bytes), bytes_(bytes) {}
  std::byte* base() const { return area_.base(); }
  void scribble(Input& input) {
    const std::size_t at = input.take<std::uint16_t>() % bytes_;
    const auto from = input.bytes(std::min<std::size_t>(input.byte() % 81, bytes_ - at));
    if (!from.empty()) std::memcpy(base() + at, from.data(), from.size());
  }
  /// A word of 32 bits at the place of an index.
  void set(std::size_t at, std::uint32_t value) { std::memcpy(base() + at, &value, sizeof value); }

 private:
  SharedArea area_;
  std::size_t bytes_;
};

/// Room for a payload, with bytes behind it that must stay.
struct PayloadRoom {
  std::array<std::byte, abi::kCommandPayloadBytes> payload{};
  std::array<std::byte, 16> guard{};
  void check() const {
    for (const std::byte b : guard) require(b == std::byte{0}, "payload stays in its room");
  }
};

void check_command(Verdict verdict, const abi::CommandHeader& header, std::uint32_t room) {
  if (verdict != Verdict::kOk) return;
  require(header.payload_bytes <= room, "a payload fits");
  if ((header.flags & abi::kCommandInline) == 0)
    require(header.payload_bytes % sizeof(abi::ScatterGather) == 0, "whole entries");
}

void run_session(Input& input) {
  const std::uint32_t vcbs = 1 + input.below(4);
  Shared memory(abi::session_bytes(vcbs));
  SessionView::format(memory.base(), vcbs);
  const std::uint32_t first = input.flag() ? 0xfffffff0 : 0;
  memory.set(offsetof(abi::SessionHeader, doorbell_producer), first);
  SessionView view(memory.base(), vcbs, first);
  bool hostile = false;
  while (!input.done()) {
    const std::uint32_t vcb = input.below(vcbs);
    abi::CommandHeader header{};
    PayloadRoom room;
    switch (input.below(8)) {
      case 0:
        memory.scribble(input);
        break;
      case 1:
        require((view.pending() >> vcbs) == 0, "only VCBs there are");
        view.release(view.pending() & input.take<std::uint64_t>());
        break;
      case 2:
        check_command(view.copy_command(vcb, header, room.payload.data()), header,
                      abi::kCommandPayloadBytes);
        break;
      case 3:
        view.copy_segments(vcb, view.scoreboard(vcb), header, room.payload.data());
        break;
      case 4:
        view.copy_segments(vcb, input.take<std::uint64_t>(), header, room.payload.data());
        break;
      case 5: {
        abi::Doorbell doorbell;
        const Take take = view.next_doorbell(doorbell);
        require(!hostile || take == Take::kHostile, "hostile for good");
        hostile = take == Take::kHostile;
        if (take == Take::kTaken) view.take_doorbell();
        break;
      }
      case 6:
        memory.set(offsetof(abi::SessionHeader, doorbell_producer),
                   first + input.take<std::uint16_t>());
        break;
      case 7:
        if (view.park()) view.unpark();
        (void)view.has_work();
        break;
    }
    room.check();
  }
}

void run_send(Input& input) {
  const std::uint32_t entries = 1u << input.below(5);
  const std::uint32_t stride = abi::send_stride(input.below(17), input.take<std::uint16_t>() % 257);
  Shared memory(SendRing::bytes_for(entries, stride));
  SendRing ring(memory.base(), entries, stride);
  while (!input.done()) {
    abi::CommandHeader header{};
    PayloadRoom room;
    switch (input.below(4)) {
      case 0:
        memory.scribble(input);
        break;
      case 1:
        check_command(ring.copy(input.take<std::uint32_t>(), header, room.payload.data()), header,
                      stride - abi::kCommandHeaderBytes);
        break;
      case 2: {
        const auto qpn = input.take<std::uint16_t>();
        const auto end = input.take<std::uint32_t>();
        ring.write_overflow(qpn, end);
        require(ring.read_overflow(qpn) == end, "a doorbell comes back");
        break;
      }
      case 3:
        (void)ring.read_overflow(input.take<std::uint16_t>());
        break;
    }
    room.check();
  }
}

void run_receive(Input& input) {
  const std::uint32_t entries = 1u << input.below(5);
  const std::uint32_t max_sge = input.below(abi::kMaxSge + 1);
  const std::uint32_t first = input.flag() ? 0xfffffff8 : 0;
  Shared memory(ReceiveRing::bytes_for(entries, max_sge));
  memory.set(0, first);
  ReceiveRing ring(memory.base(), entries, max_sge, first);
  while (!input.done()) switch (input.below(4)) {
      case 0:
        memory.scribble(input);
        break;
      case 1:
        memory.set(0, first + input.byte());
        break;
      case 2: {
        const auto available = ring.available();
        require(!available || *available <= entries, "no more than the ring holds");
        (void)ring.first_address(ring.posted());
        break;
      }
      case 3: {
        ReceiveWork work;
        if (ring.take(work) != Take::kTaken) break;
        require(work.count <= max_sge, "no more entries than allowed");
        std::uint64_t sum = 0;
        for (std::uint32_t i = 0; i < work.count; ++i) sum += work.entries[i].length;
        require(sum == work.bytes, "the sum of what was copied");
        break;
      }
    }
}

void run_completion(Input& input) {
  std::uint32_t entries = 1u << input.below(5);
  auto memory = std::make_unique<Shared>(CompletionRing::bytes_for(entries));
  CompletionRing ring(memory->base(), entries);
  while (!input.done()) switch (input.below(6)) {
      case 0:
        memory->scribble(input);
        break;
      case 1:
        memory->set(offsetof(abi::CompletionRingHeader, consumer), input.byte());
        break;
      case 2:
        memory->set(offsetof(abi::CompletionRingHeader, arm), input.byte());
        break;
      case 3: {
        Completion completion;
        completion.qpn = input.byte();
        completion.source_qpn = input.take<std::uint32_t>();
        (void)ring.push(completion, input.flag());
        break;
      }
      case 4:
        (void)ring.check_arm();
        require(ring.backlog() <= entries, "no more than the ring holds");
        break;
      case 5: {
        const std::uint32_t more = 1u << input.below(6);
        auto next = std::make_unique<Shared>(CompletionRing::bytes_for(more));
        ring.replace(next->base(), more, 1);
        memory = std::move(next);
        entries = more;
        break;
      }
    }
}

}  // namespace
}  // namespace softhca::shm

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace softhca::shm;
  softhca::fuzz::Input input(data, size);
  switch (input.below(4)) {
    case 0:
      run_session(input);
      break;
    case 1:
      run_send(input);
      break;
    case 2:
      run_receive(input);
      break;
    case 3:
      run_completion(input);
      break;
  }
  return 0;
}
