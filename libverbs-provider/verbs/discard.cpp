// SPDX-License-Identifier: Apache-2.0

#include <cstring>

#include "libverbs-provider/verbs/queues.hpp"

namespace softhca::provider {
namespace {

constexpr std::uint32_t kSourceBits = ~abi::kPhaseBit;

template <class Element>
void discard(Element& element, Qp& qp) {
  if (element.qpn != qp.qpn || element.is_receive == kDiscarded) return;
  if (element.is_receive != 0 && qp.srq != nullptr) return_slot(*qp.srq, element.index);
  element.is_receive = kDiscarded;
}

/// Copies a completion without its phase bit, which belongs to the slot.
void move(const abi::CompletionElement& from, abi::CompletionElement& to) {
  std::memcpy(static_cast<void*>(&to), &from, offsetof(abi::CompletionElement, owner));
  const std::uint32_t source = from.owner.load(std::memory_order_relaxed) & kSourceBits;
  const std::uint32_t phase = to.owner.load(std::memory_order_relaxed) & abi::kPhaseBit;
  to.owner.store(phase | source, std::memory_order_relaxed);
}

/// Frees the slots of discarded completions, by moving the other completions up to `end`. The
/// consumer owns the slots up to `end` until `consumer` has passed them.
void close_gaps(CqRing& ring, std::uint32_t end) {
  std::uint32_t to = end;
  for (std::uint32_t from = end; from-- != ring.consumer;) {
    const abi::CompletionElement& element = *ring.peek(from);
    if (element.is_receive == kDiscarded) continue;
    if (--to != from) move(element, *ring.peek(to));
  }
  if (to == ring.consumer) return;
  ring.consumer = to;
  ring.header->consumer.store(to, std::memory_order_release);
}

}  // namespace

void discard_completions(Cq& cq, Qp& qp) {
  Guard guard(cq.lock);
  for (std::uint32_t i = cq.backlog_next; i != cq.backlog_count; ++i) discard(cq.backlog[i], qp);
  std::uint32_t end = cq.ring.consumer;
  for (; end - cq.ring.consumer < cq.ring.entries; ++end) {
    abi::CompletionElement* element = cq.ring.peek(end);
    if (element == nullptr) break;
    discard(*element, qp);
  }
  close_gaps(cq.ring, end);
}

}  // namespace softhca::provider
