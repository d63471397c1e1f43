// SPDX-License-Identifier: Apache-2.0

#include "tests/system/isolation/hostile/life.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <iterator>

#include "abi/checksum.hpp"

namespace softhca::scribble {

std::uint64_t word(Random& random) {
  switch (random() % 5) {
    case 0:
      return 0;
    case 1:
      return ~std::uint64_t{0};
    case 2:
      return random() & 0x0000ffff0000ffff;
    case 3:
      return random() & 0x000000ff000000ff;
    default:
      return random();
  }
}

void Life::step() {
  if (spoils()) scribble(one_in(32));
  const std::uint32_t what = below(64);
  if (what < 24)
    post();
  else if (what < 48)
    post_receive();
  else if (what < 62)
    poll(cqs_[below(2)]);
  else if (what < 63 && spoils())
    connect(queues_[below(static_cast<std::uint32_t>(queues_.size()))]);
  session_.wake();
}

/// Mostly one that the queue pair's type knows.
std::uint8_t Life::choose_opcode(const Queue& queue) {
  if (spoils()) return static_cast<std::uint8_t>(one_in(2) ? below(256) : below(10));
  if (queue.type == kUd) return static_cast<std::uint8_t>(2 + below(2));
  if (queue.type == kUc) return static_cast<std::uint8_t>(below(4));
  return static_cast<std::uint8_t>(below(7));
}

/// A command that could be meant, or was before one of its words was spoiled.
abi::CommandHeader Life::compose(const Queue& queue, std::array<std::byte, 256>& payload) {
  abi::CommandHeader header{};
  header.opcode = choose_opcode(queue);
  header.flags =
      static_cast<std::uint8_t>(spoils() ? below(256) : below(16) | abi::kCommandSignaled);
  header.qpn = queue.qpn;
  header.sequence = queue.next;
  header.remote_addr = session_.address + below(Session::kBuffer / 16) * 8;
  header.rkey = session_.key;
  header.imm = below(1000);
  header.remote_qpn = queue.qpn;
  header.remote_qkey = kSharedKey;
  header.address_handle = handle_;
  for (std::byte& byte : payload) byte = static_cast<std::byte>(random_());
  const bool atomic = header.opcode == 5 || header.opcode == 6;
  if (header.opcode >= 4 && header.opcode <= 6) header.flags &= ~abi::kCommandInline;
  if ((header.flags & abi::kCommandInline) != 0) {
    header.payload_bytes = static_cast<std::uint16_t>(below(queue.max_inline + 1));
  } else {
    const std::uint32_t entries = atomic ? 1 : below(queue.max_sge + 1);
    header.payload_bytes = static_cast<std::uint16_t>(entries * sizeof(abi::ScatterGather));
    for (std::uint32_t i = 0; i < entries; ++i) {
      abi::ScatterGather sge{session_.address + below(Session::kBuffer / 2),
                             atomic ? 8 : below(Session::kBuffer / 64), session_.key};
      if (spoils()) sge.length = static_cast<std::uint32_t>(word(random_));
      if (spoils()) sge.lkey = below(1 << 16);
      std::memcpy(payload.data() + i * sizeof sge, &sge, sizeof sge);
    }
  }
  if (one_in(2)) header.checksum = abi::command_checksum(header, payload.data());
  if (spoils()) {
    const std::uint64_t spoiled = word(random_);
    std::memcpy(reinterpret_cast<std::byte*>(&header) + below(sizeof header / 8) * 8, &spoiled, 8);
  }
  return header;
}

void Life::post() {
  Queue& queue = queues_[below(static_cast<std::uint32_t>(queues_.size()))];
  // Mostly acts as a program does: connects a failed queue pair anew, and posts nothing to a full
  // queue.
  if (queue.failed && !one_in(4)) return connect(queue);
  std::array<std::byte, 256> payload;
  const abi::CommandHeader header = compose(queue, payload);
  const bool by_vcb = one_in(2);
  if (queue.next - queue.completed >= queue.send_entries && !spoils()) return;
  std::byte* slot =
      queue.send + std::size_t{queue.next & (queue.send_entries - 1)} * queue.send_stride;
  std::memcpy(slot, &header, sizeof header);
  std::memcpy(slot + sizeof header, payload.data(),
              std::min<std::size_t>(queue.send_stride - sizeof header, payload.size()));
  ++queue.next;
  ++score_.posts;
  if (!by_vcb || !hand_over(header, payload)) ring_doorbell(queue);
}

/// Writes the command to a VCB in two pieces, and hands the VCB over before, between or after them.
/// False if no VCB is free.
bool Life::hand_over(const abi::CommandHeader& header, const std::array<std::byte, 256>& payload) {
  const std::uint64_t all = session_.vcbs >= 64 ? ~std::uint64_t{0} : (1ull << session_.vcbs) - 1;
  const std::uint64_t pieces = random_() & abi::kAllSegments;
  const std::uint32_t when = below(3);
  abi::SessionHeader& shared = session_.header();
  const std::uint64_t free = all & ~(shared.active.load() ^ shared.released.load());
  if (free == 0) return false;
  const auto vcb = static_cast<std::uint32_t>(std::countr_zero(free));
  abi::VcbPage& page = session_.vcb(vcb);
  page.scoreboard.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  if (when == 0) shared.active.fetch_xor(std::uint64_t{1} << vcb);
  page.scoreboard.store(pieces, std::memory_order_release);
  std::memcpy(page.command, &header, sizeof header);
  if (when == 1) shared.active.fetch_xor(std::uint64_t{1} << vcb);
  std::memcpy(page.command + sizeof header, payload.data(), payload.size());
  page.scoreboard.store(abi::kAllSegments, std::memory_order_release);
  if (when == 2) shared.active.fetch_xor(std::uint64_t{1} << vcb);
  return true;
}

void Life::ring_doorbell(const Queue& queue) {
  abi::SessionHeader& shared = session_.header();
  const std::uint32_t producer = shared.doorbell_producer.load(std::memory_order_relaxed);
  session_.doorbells()[producer % abi::kDoorbellEntries] = {queue.qpn, queue.next};
  shared.doorbell_producer.store(producer + 1);
}

void Life::post_receive() {
  Queue& queue = queues_[below(static_cast<std::uint32_t>(queues_.size()))];
  const bool ours = !queue.shared;
  std::byte* base = ours ? queue.receive : srq_base_;
  const std::uint32_t entries = ours ? queue.receive_entries : srq_entries_;
  const std::uint32_t stride = ours ? queue.receive_stride : srq_stride_;
  std::uint32_t& next = ours ? queue.next_receive : srq_next_;
  const std::uint32_t most =
      static_cast<std::uint32_t>((stride - sizeof(abi::ReceiveElement)) / 16);
  abi::ReceiveElement element{next & (entries - 1), below(most + 1), 0};
  if (spoils()) element.num_sge = static_cast<std::uint32_t>(word(random_));
  std::byte* slot =
      base + sizeof(abi::ReceiveRingHeader) + std::size_t{next & (entries - 1)} * stride;
  std::memcpy(slot, &element, sizeof element);
  for (std::uint32_t i = 0; i < most; ++i) {
    const abi::ScatterGather sge{session_.address + below(Session::kBuffer / 2),
                                 Session::kBuffer / 2, session_.key};
    std::memcpy(slot + sizeof element + i * sizeof sge, &sge, sizeof sge);
  }
  ++next;
  ++score_.receives;
  reinterpret_cast<abi::ReceiveRingHeader*>(base)->producer.store(next, std::memory_order_release);
}

/// Takes what has come, as far as it can be told from scribbling, and arms the queue.
void Life::poll(Completions& cq) {
  auto* header = reinterpret_cast<abi::CompletionRingHeader*>(cq.base);
  auto* elements = reinterpret_cast<abi::CompletionElement*>(header + 1);
  for (std::uint32_t i = 0; i < cq.entries; ++i, ++cq.consumer) {
    const abi::CompletionElement& element = elements[cq.consumer & (cq.entries - 1)];
    const std::uint32_t owner = element.owner.load(std::memory_order_acquire);
    if ((owner & abi::kPhaseBit) != abi::phase_of(cq.consumer, cq.entries)) break;
    const auto queue = std::find_if(queues_.begin(), queues_.end(),
                                    [&](const Queue& q) { return q.qpn == element.qpn; });
    if (queue == queues_.end()) continue;
    ++(element.status == 0 ? score_.good : score_.bad);
    if (element.status != 0) queue->failed = true;
    if (element.is_receive == 0) queue->completed = element.index + 1;
  }
  header->consumer.store(cq.consumer, std::memory_order_release);
  header->arm.store(cq.consumer << 2 | below(4));
}

void Life::scribble(bool all) {
  const auto& [kind, places] =
      *std::next(areas_.begin(), below(static_cast<std::uint32_t>(areas_.size())));
  const Area& area = places[below(static_cast<std::uint32_t>(places.size()))];
  const auto count = static_cast<std::uint32_t>(area.bytes / 8);
  const std::uint32_t some = all ? count : 1 + below(4);
  score_.words[kind] += some;
  for (std::uint32_t i = 0; i < some; ++i) {
    const std::uint64_t value = word(random_);
    std::memcpy(area.base + std::size_t{all ? i : below(count)} * 8, &value, 8);
  }
}

}  // namespace softhca::scribble
