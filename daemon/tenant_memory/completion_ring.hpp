// SPDX-License-Identifier: Apache-2.0

// The engine's side of a completion queue (abi/rings.hpp): writes completions, detects overflow,
// and decides whether a completion event is due.
#pragma once

#include <bit>
#include <cassert>
#include <utility>

#include "abi/rings.hpp"
#include "daemon/tenant_memory/untrusted.hpp"

namespace softhca::shm {

/// The data that push() writes: abi::CompletionElement without its owner word.
struct Completion {
  std::uint32_t qpn = 0;
  std::uint32_t index = 0;  ///< send: sequence number; receive: ReceiveElement::index
  std::uint32_t byte_len = 0;
  std::uint32_t imm = 0;        ///< network byte order, or the invalidated key; failed: vendor_err
  std::uint64_t timestamp = 0;  ///< ns
  abi::CompletionStatus status = abi::CompletionStatus::kSuccess;
  abi::CompletionOpcode opcode = abi::CompletionOpcode::kSend;
  std::uint8_t flags = 0;        ///< abi::kCompletion*
  std::uint8_t is_receive = 0;   ///< abi::kCompletionOf*
  std::uint32_t source_qpn = 0;  ///< UD; XRC: number of the shared receive queue
};
static_assert(offsetof(Completion, source_qpn) == offsetof(abi::CompletionElement, owner));
static_assert(offsetof(Completion, timestamp) == offsetof(abi::CompletionElement, timestamp));
static_assert(offsetof(Completion, is_receive) == offsetof(abi::CompletionElement, is_receive));
static_assert(sizeof(Completion) == sizeof(abi::CompletionElement));

class CompletionRing {
 public:
  /// Returns the shared memory of a ring in bytes.
  static constexpr std::size_t bytes_for(std::uint32_t entries) {
    return sizeof(abi::CompletionRingHeader) + entries * sizeof(abi::CompletionElement);
  }

  CompletionRing() = default;
  /// `base`: a zeroed header and entries * sizeof(CompletionElement) bytes that outlive the view.
  /// `entries` is a power of two.
  /// `producer`: the counter to continue from. The tenant has polled all completions before it.
  CompletionRing(std::byte* base, std::uint32_t entries, std::uint32_t producer = 0) {
    use(base, entries, producer);
  }

  std::uint32_t entries() const { return entries_; }

  /// Writes one completion. `solicited`: the sender asked for a solicited event; a failed
  /// completion counts as solicited. Returns false if the ring is full: it writes nothing, and the
  /// queue goes to error (IBV_EVENT_CQ_ERR). Touches one cache line of the ring. Reads the tenant's
  /// consumer index only if the ring seems full by the index read last.
  bool push(const Completion& completion, bool solicited = false) {
    if (producer_ - consumer_seen_ >= entries_ && !refresh_consumer()) return false;
    abi::CompletionElement& element = elements()[producer_ & (entries_ - 1)];
    std::memcpy(static_cast<void*>(&element), &completion, offsetof(abi::CompletionElement, owner));
    element.owner.store((completion.source_qpn & 0xffffff) | abi::phase_of(producer_, entries_),
                        std::memory_order_release);
    ++producer_;
    news_ |= kAnyNews;
    if (solicited || completion.status != abi::CompletionStatus::kSuccess) news_ |= kSolicitedNews;
    return true;
  }

  /// True if the engine has to send an event for the completions pushed since the last call. The
  /// tenant has to arm again for another event. Until event_sent() the event is owed. REQUIRES: a
  /// seq_cst fence since the last push (one for a whole batch of queues). Then either the tenant,
  /// which polls once more after it armed, sees the completion, or this call sees the arm word.
  bool check_arm() {
    const std::uint32_t arm = header().arm.load(std::memory_order_relaxed);
    const bool due = is_due(arm);
    news_ = 0;
    if (due) header().arm.exchange(abi::kArmOwed, std::memory_order_seq_cst);
    return due;
  }

  /// Returns the counter of the next completion.
  std::uint32_t next_counter() const { return producer_; }
  /// True if this completion is there, as the tenant's memory shows it.
  bool has(std::uint32_t counter, const Completion& completion) const {
    const abi::CompletionElement& element = elements()[counter & (entries_ - 1)];
    const std::uint32_t owner = element.owner.load(std::memory_order_acquire);
    return (owner & abi::kPhaseBit) == abi::phase_of(counter, entries_) &&
           element.qpn == completion.qpn && element.index == completion.index &&
           (element.is_receive != 0) == (completion.is_receive != 0);
  }

  /// Records that the event of the last arming is sent: a later engine need not send it. To be
  /// called after check_arm() has returned true.
  void event_sent() { header().arm.fetch_and(~abi::kArmOwed, std::memory_order_seq_cst); }

  /// Continues where an earlier engine has stopped, as the completions in the ring show. Returns
  /// false if they show no place that an engine can have reached: the tenant has changed them.
  /// Completions that are not polled, and an owed event, count as new for the next check_arm().
  bool resume() {
    // The counter modulo two laps is where the phase changes.
    const auto phase = [&](std::uint32_t i) {
      return elements()[i].owner.load(std::memory_order_acquire) & abi::kPhaseBit;
    };
    const std::uint32_t first = phase(0);
    std::uint32_t low = 1, high = entries_;
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (phase(middle) == first)
        low = middle + 1;
      else
        high = middle;
    }
    const std::uint32_t laps = 2 * entries_;
    const std::uint32_t place = (first == abi::phase_of(0, entries_) ? low : low + entries_) % laps;
    const std::uint32_t consumer = header().consumer.load(std::memory_order_acquire);
    const std::uint32_t backlog = (place - consumer) % laps;
    producer_ = consumer + backlog;
    consumer_seen_ = consumer;
    const std::uint32_t arm = header().arm.load(std::memory_order_seq_cst);
    if ((arm & abi::kArmOwed) != 0) header().arm.fetch_or(abi::kArmAny, std::memory_order_seq_cst);
    if (backlog != 0 || (arm & abi::kArmOwed) != 0) news_ = kAnyNews | kSolicitedNews;
    return backlog <= entries_;
  }
  /// True if check_arm() may return true.
  bool has_news() const { return news_ != 0; }

  /// Returns the completions that the tenant has not polled, by its own consumer index; at most
  /// entries().
  std::uint32_t backlog() {
    const std::uint32_t count = producer_ - header().consumer.load(std::memory_order_acquire);
    return count > entries_ ? entries_ : count;
  }

  /// Continues in another ring (resize), as request `by` asks, which is not 0. The counters start
  /// at 0. The arm word moves along, so that an event requested before the resize still comes. The
  /// tenant polls the remaining completions from the old ring.
  void replace(std::byte* base, std::uint32_t entries, std::uint32_t by) {
    abi::CompletionRingHeader& old = header();
    const std::uint32_t arm = old.arm.load(std::memory_order_seq_cst);
    use(base, entries, 0);
    // A later engine finds no completion here, but owes the event of those in the old ring.
    header().arm.store(is_due(arm) ? arm | abi::kArmOwed : arm, std::memory_order_seq_cst);
    header().moved_by.store(by, std::memory_order_seq_cst);
    old.arm.store(abi::kArmNone, std::memory_order_seq_cst);
  }
  /// Returns the request by which the queue was moved to the ring at `base`. 0: none was, or the
  /// engine has ended before it moved the queue.
  static std::uint32_t moved_by(const std::byte* base) {
    return reinterpret_cast<const abi::CompletionRingHeader*>(base)->moved_by.load(
        std::memory_order_acquire);
  }
  /// Returns the entries of a ring of so many bytes.
  static constexpr std::uint32_t entries_in(std::size_t bytes) {
    return static_cast<std::uint32_t>((bytes - sizeof(abi::CompletionRingHeader)) /
                                      sizeof(abi::CompletionElement));
  }

 private:
  static constexpr std::uint8_t kAnyNews = 1;
  static constexpr std::uint8_t kSolicitedNews = 2;

  bool is_due(std::uint32_t arm) const {
    return ((arm & abi::kArmAny) != 0 && news_ != 0) ||
           ((arm & abi::kArmSolicited) != 0 && (news_ & kSolicitedNews) != 0);
  }
  abi::CompletionRingHeader& header() const {
    return *reinterpret_cast<abi::CompletionRingHeader*>(base_);
  }
  abi::CompletionElement* elements() const {
    return reinterpret_cast<abi::CompletionElement*>(base_ + sizeof(abi::CompletionRingHeader));
  }

  void use(std::byte* base, std::uint32_t entries, std::uint32_t producer) {
    assert(std::has_single_bit(entries));
    base_ = base;
    entries_ = entries;
    producer_ = consumer_seen_ = producer;
  }

  /// True if there is room. Rejects a consumer index outside (producer - entries, producer], which
  /// no honest tenant writes. A tenant can thus at worst overwrite completions that it has not
  /// polled itself.
  bool refresh_consumer() {
    const std::uint32_t consumer = header().consumer.load(std::memory_order_acquire);
    if (producer_ - consumer >= entries_) return false;
    consumer_seen_ = consumer;
    return true;
  }

  std::byte* base_ = nullptr;
  std::uint32_t entries_ = 0;
  std::uint32_t producer_ = 0;
  std::uint32_t consumer_seen_ = 0;
  std::uint8_t news_ = 0;
};

}  // namespace softhca::shm
