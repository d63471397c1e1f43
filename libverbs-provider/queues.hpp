// The provider's objects: each begins with the library's structure of its kind, so that a pointer
// the application holds is a pointer to one of these.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "abi/command.hpp"
#include "abi/rings.hpp"
#include "libverbs-provider/abi34.hpp"
#include "libverbs-provider/heap.hpp"
#include "libverbs-provider/lock.hpp"

namespace softhca::provider {

struct Context;
struct Srq;

/// The part of an object that asynchronous events refer to. All of it is guarded by the lock of
/// event_files.hpp.
struct EventTarget {
  std::uint32_t async_delivered = 0;
  std::uint32_t completions_delivered = 0;  ///< completion queues only
  bool retired = false;                     ///< destroyed; records that name it are dropped
};

/// A completion as copied out of a ring.
struct Completion {
  std::uint32_t qpn;
  std::uint32_t index;
  std::uint32_t byte_len;
  std::uint32_t imm;
  std::uint64_t timestamp;
  std::uint8_t status;
  std::uint8_t opcode;
  std::uint8_t flags;
  std::uint8_t is_receive;
  std::uint32_t source_qp;
};

/// Stands in `is_receive` of completions whose queue pair was destroyed or reset.
inline constexpr std::uint8_t kDiscarded = 2;

/// A completion ring, consumer side.
struct CompletionRing {
  abi::CompletionRingHeader* header = nullptr;
  abi::CompletionElement* elements = nullptr;
  std::uint32_t entries = 0;
  std::uint32_t consumer = 0;

  /// The element at counter `at`, null when the engine has not written it yet.
  abi::CompletionElement* peek(std::uint32_t at) const {
    abi::CompletionElement& element = elements[at & (entries - 1)];
    const std::uint32_t owner = element.owner.load(std::memory_order_acquire);
    return (owner & abi::kPhaseBit) == abi::phase_of(at, entries) ? &element : nullptr;
  }
};

struct Cq {
  abi34::VerbsCq base;
  Context* context = nullptr;
  EventTarget events;

  SpinLock lock;  ///< guards what follows
  CompletionRing ring;
  Array<Completion> backlog;  ///< left over from the ring before a resize
  std::uint32_t backlog_next = 0;
  std::uint32_t backlog_count = 0;
  std::uint32_t empty_polls = 0;
  // Extended completion queues: what ibv_start_poll() and ibv_next_poll() found.
  bool single_threaded = false;  ///< the program keeps its threads apart itself
  ibv_wc current{};
  std::uint64_t current_timestamp = 0;
};

struct SendQueue {
  SpinLock lock;  ///< guards `next` and the ring
  std::byte* ring = nullptr;
  abi::SendRingTail* tail = nullptr;
  std::uint32_t stride = 0;
  std::uint32_t mask = 0;
  std::uint32_t max_wr = 0;
  std::uint32_t max_sge = 0;
  std::uint32_t max_inline = 0;
  std::uint32_t next = 0;                ///< sequence number of the next command
  std::atomic<std::uint32_t> completed;  ///< sequences below it are free; written by polling
  Array<std::uint64_t> wr_ids;           ///< by sequence & mask
};

struct ReceiveQueue {
  SpinLock lock;  ///< guards `next` and the ring
  abi::ReceiveRingHeader* header = nullptr;
  std::byte* elements = nullptr;
  std::uint32_t stride = 0;
  std::uint32_t mask = 0;
  std::uint32_t max_wr = 0;
  std::uint32_t max_sge = 0;
  std::uint32_t next = 0;                ///< the producer counter
  std::atomic<std::uint32_t> completed;  ///< written by polling
  Array<std::uint64_t> wr_ids;           ///< by index & mask
};

/// Longer chains go by doorbell: one announcement, and the VCBs are left to others.
inline constexpr std::uint32_t kLongestVcbChain = 4;

/// What the ibv_wr_ calls are making, from ibv_wr_start() to ibv_wr_complete(). Guarded by the lock
/// of the send queue, which is held for that time.
struct OpenCommand {
  abi::CommandHeader header{};
  std::uint64_t wr_id = 0;
  std::uint32_t first = 0;  ///< sequence number of the first one since ibv_wr_start()
  int error = 0;            ///< errno value of what went wrong first
  bool begun = false;       ///< `header` is of a command that is not in the queue yet
  // In pieces (pieces.hpp):
  bool in_vcb = false;           ///< the last of `vcbs` is for it
  std::uint16_t shown = 0;       ///< bytes of its payload that are there
  std::uint32_t begun_vcbs = 0;  ///< of the first so many commands
  std::uint8_t vcbs[kLongestVcbChain]{};
};

struct Qp {
  abi34::VerbsQp base;
  Context* context = nullptr;
  EventTarget events;
  std::uint32_t qpn = 0;
  ibv_qp_type type = IBV_QPT_RC;
  Srq* srq = nullptr;
  bool signal_all = false;
  std::atomic<int> state{IBV_QPS_RESET};  ///< as far as this process knows
  /// A completion with an error was seen: the engine flushes what is posted from now on.
  std::atomic<bool> flushing{false};
  bool opened = false;  ///< by ibv_open_qp(): its handle is not its number
  SendQueue send;
  ReceiveQueue receive;
  OpenCommand open;
};

/// Completions of a shared receive queue come in any order, so its elements carry the number of a
/// slot taken from a free list, independent of their place in the ring.
struct Srq {
  abi34::VerbsSrq base;
  Context* context = nullptr;
  EventTarget events;

  SpinLock lock;  ///< guards what follows
  abi::ReceiveRingHeader* header = nullptr;
  std::byte* elements = nullptr;
  std::uint32_t stride = 0;
  std::uint32_t mask = 0;
  std::uint32_t max_wr = 0;
  std::uint32_t max_sge = 0;
  std::uint32_t next = 0;
  std::uint32_t slots = 0;  ///< at least max_wr; there are more after the queue got smaller
  std::uint32_t free_count = 0;
  Array<std::uint32_t> free_slots;
  Array<std::uint64_t> wr_ids;  ///< by slot

  /// Receives posted whose completion has not been polled.
  std::uint32_t outstanding() const { return slots - free_count; }
};

inline Cq* to_cq(ibv_cq* cq) { return reinterpret_cast<Cq*>(cq); }
inline Qp* to_qp(ibv_qp* qp) { return reinterpret_cast<Qp*>(qp); }
inline Srq* to_srq(ibv_srq* srq) { return reinterpret_cast<Srq*>(srq); }
static_assert(offsetof(Cq, base) == 0 && offsetof(Qp, base) == 0 && offsetof(Srq, base) == 0);

template <class Object>
std::uint64_t user_handle_of(Object* object) {
  return reinterpret_cast<std::uintptr_t>(object);
}

/// In completion_queue.cpp. REQUIRES: the element is valid (CompletionRing::peek()).
Completion copy_completion(const abi::CompletionElement& element);

/// Writes the receive element `index` with the entries of `wr` to `slot`.
void write_receive_element(std::byte* slot, std::uint32_t index, const ibv_recv_wr& wr);

/// Takes slot `index` back into the free list; its wr_id, or 0 for an index out of range.
std::uint64_t return_slot(Srq& srq, std::uint32_t index);

/// Makes later polls skip what `cq` holds of `qp`, giving slots of its shared receive queue back.
/// REQUIRES: the engine writes no more completions of it.
void discard_completions(Cq& cq, Qp& qp);

}  // namespace softhca::provider
