// The engine's side of a completion queue (abi/rings.hpp): writes completions, detects overflow,
// and decides whether a completion event is due.
#pragma once

#include <bit>
#include <cassert>
#include <utility>

#include "abi/rings.hpp"
#include "daemon/shm/untrusted.hpp"

namespace softhca::shm {

/// What push() writes: abi::CompletionElement without its owner word.
struct Completion {
  std::uint32_t qpn = 0;
  std::uint32_t index = 0;  ///< send: sequence number; receive: ReceiveElement::index
  std::uint32_t byte_len = 0;
  std::uint32_t imm = 0;        ///< network byte order, or the invalidated key
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
  /// Shared memory a ring takes.
  static constexpr std::size_t bytes_for(std::uint32_t entries) {
    return sizeof(abi::CompletionRingHeader) + entries * sizeof(abi::CompletionElement);
  }

  CompletionRing() = default;
  /// `base`: zeroed header and entries * sizeof(CompletionElement) bytes that outlive the view;
  /// entries a power of two.
  /// `producer`: counter to go on from, everything before it polled.
  CompletionRing(std::byte* base, std::uint32_t entries, std::uint32_t producer = 0) {
    use(base, entries, producer);
  }

  std::uint32_t entries() const { return entries_; }

  /// Writes one completion; `solicited` as the sender asked (a failed one counts as solicited).
  /// False: the ring is full, nothing was written, the queue goes to error (IBV_EVENT_CQ_ERR).
  /// Touches one cache line of the ring; reads the tenant's consumer index only when the ring
  /// seems full by what was last seen of it.
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

  /// True if an event is to be sent for what was pushed since the last call; the tenant has to ask
  /// anew for another one. REQUIRES: a seq_cst fence since the last push (one for the whole batch
  /// of queues), so that either the tenant, polling once more after it armed, sees the completion,
  /// or this sees the arm word.
  bool check_arm() {
    const std::uint8_t news = std::exchange(news_, 0);
    const std::uint32_t arm = header().arm.load(std::memory_order_relaxed);
    const bool due = ((arm & abi::kArmAny) != 0 && news != 0) ||
                     ((arm & abi::kArmSolicited) != 0 && (news & kSolicitedNews) != 0);
    if (due) header().arm.exchange(abi::kArmNone, std::memory_order_seq_cst);
    return due;
  }

  /// Completions the tenant has not polled yet, by its own account (at most entries()).
  std::uint32_t backlog() {
    const std::uint32_t count = producer_ - header().consumer.load(std::memory_order_acquire);
    return count > entries_ ? entries_ : count;
  }

  /// Goes on in another ring (resize): counters start at 0; the arm word moves along, so that an
  /// event asked for before the resize still comes. The tenant takes what is left in the old ring.
  void replace(std::byte* base, std::uint32_t entries) {
    const std::uint32_t arm = header().arm.exchange(abi::kArmNone, std::memory_order_seq_cst);
    use(base, entries, 0);
    header().arm.store(arm, std::memory_order_seq_cst);
  }

 private:
  static constexpr std::uint8_t kAnyNews = 1;
  static constexpr std::uint8_t kSolicitedNews = 2;

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

  /// True when there is room. An index outside (producer - entries, producer] is no honest one; it
  /// is not taken over, so a tenant can at worst overwrite what it has not polled itself.
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
