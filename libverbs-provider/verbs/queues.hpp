// SPDX-License-Identifier: Apache-2.0

// The provider's objects. Each begins with the library's structure of its kind, so that the
// application's pointers refer to these objects.
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

/// The part of an object to which asynchronous events refer. The lock in event_files.hpp guards it.
struct EventTarget {
  std::uint32_t async_delivered = 0;
  std::uint32_t completions_delivered = 0;  ///< completion queues only
  bool retired = false;                     ///< destroyed; records that name it are dropped
};

/// A completion copied from a ring.
struct PolledCompletion {
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

/// Value of `is_receive` of completions of queue pairs that were destroyed or reset.
inline constexpr std::uint8_t kDiscarded = 2;

/// A completion ring, as its consumer uses it.
struct CqRing {
  abi::CompletionRingHeader* header = nullptr;
  abi::CompletionElement* elements = nullptr;
  std::uint32_t entries = 0;
  std::uint32_t consumer = 0;

  /// Returns the element at counter `at`, or null if the engine has not written it yet.
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

  SpinLock lock;  ///< guards the following members
  CqRing ring;
  HeapArray<PolledCompletion> backlog;  ///< completions of the ring before a resize
  std::uint32_t backlog_next = 0;
  std::uint32_t backlog_count = 0;
  std::uint32_t empty_polls = 0;
  std::atomic<bool> poll_explained{false};  ///< why polls fail
  // Extended completion queues: the current completion, of ibv_start_poll() and ibv_next_poll().
  bool single_threaded = false;  ///< the program serialises its threads
  ibv_wc current{};
  std::uint64_t current_timestamp = 0;
};

struct Sq {
  static constexpr std::uint32_t kHasNotLacked = 0xffffffff;

  SpinLock lock;  ///< guards `next` and the ring
  std::byte* ring = nullptr;
  abi::SendRingTail* tail = nullptr;
  std::uint32_t stride = 0;
  std::uint32_t mask = 0;
  std::uint32_t max_wr = 0;
  std::uint32_t max_sge = 0;
  std::uint32_t max_inline = 0;
  std::uint32_t next = 0;  ///< sequence number of the next command
  std::uint32_t rung = 0;  ///< where the latest doorbell ends
  /// VCBs that the process had at the latest doorbell for want of one; kHasNotLacked: none was rung
  /// since a command went by VCB.
  std::uint32_t lacked = kHasNotLacked;
  std::atomic<std::uint32_t> completed;  ///< earlier ones are free; written by polling
  HeapArray<std::uint64_t> wr_ids;       ///< by sequence & mask
};

struct Rq {
  SpinLock lock;  ///< guards `next` and the ring
  abi::ReceiveRingHeader* header = nullptr;
  std::byte* elements = nullptr;
  std::uint32_t stride = 0;
  std::uint32_t mask = 0;
  std::uint32_t max_wr = 0;
  std::uint32_t max_sge = 0;
  std::uint32_t next = 0;                ///< the producer counter
  std::atomic<std::uint32_t> completed;  ///< written by polling
  HeapArray<std::uint64_t> wr_ids;       ///< by index & mask
};

/// Longer chains use a doorbell: that is one announcement, and leaves the VCBs to other queue
/// pairs.
inline constexpr std::uint32_t kLongestVcbChain = 4;

/// The command of the ibv_wr_ calls between ibv_wr_start() and ibv_wr_complete(). Guarded by the
/// lock of the send queue, which the thread holds meanwhile.
struct OpenCommand {
  abi::CommandHeader header{};
  std::uint64_t wr_id = 0;
  std::uint32_t first = 0;  ///< sequence number of the first one since ibv_wr_start()
  int error = 0;            ///< errno value of the first mistake
  bool begun = false;       ///< `header` is of a command that is not in the queue yet
  // Only for commands in pieces (pieces.hpp):
  bool in_vcb = false;           ///< the last of `vcbs` is for the command
  std::uint16_t shown = 0;       ///< bytes of its payload written to the VCB
  std::uint32_t begun_vcbs = 0;  ///< VCBs of the first commands of the chain
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
  std::atomic<int> state{IBV_QPS_RESET};  ///< as this process knows it
  /// A completion had an error, so the engine flushes all later posts.
  std::atomic<bool> flushing{false};
  bool opened = false;  ///< by ibv_open_qp(), so its handle is not its number
  Sq send;
  Rq receive;
  OpenCommand open;
};

/// Completions of a shared receive queue come in any order. So each element has the number of a
/// slot from a free list, independent of its place in the ring.
struct Srq {
  abi34::VerbsSrq base;
  Context* context = nullptr;
  EventTarget events;

  SpinLock lock;  ///< guards the following members
  abi::ReceiveRingHeader* header = nullptr;
  std::byte* elements = nullptr;
  std::uint32_t stride = 0;
  std::uint32_t mask = 0;
  std::uint32_t max_wr = 0;
  std::uint32_t max_sge = 0;
  std::uint32_t next = 0;
  std::uint32_t slots = 0;  ///< at least max_wr; more if the queue was made smaller
  std::uint32_t free_count = 0;
  HeapArray<std::uint32_t> free_slots;
  HeapArray<std::uint64_t> wr_ids;  ///< by slot

  /// Returns the number of posted receives without a polled completion.
  std::uint32_t outstanding() const { return slots - free_count; }
};

inline Cq* to_cq(ibv_cq* cq) { return reinterpret_cast<Cq*>(cq); }
inline Qp* to_qp(ibv_qp* qp) { return reinterpret_cast<Qp*>(qp); }
inline Srq* to_srq(ibv_srq* srq) { return reinterpret_cast<Srq*>(srq); }
static_assert(offsetof(Cq, base) == 0 && offsetof(Qp, base) == 0 && offsetof(Srq, base) == 0);

/// Returns "RC", "XRC_SEND". Defined in qp_verbs.cpp, as the next one.
const char* name_of_type(ibv_qp_type type);
/// Returns "RTS". `state`: an ibv_qp_state.
const char* name_of_state(int state);

template <class Object>
std::uint64_t user_handle_of(Object* object) {
  return reinterpret_cast<std::uintptr_t>(object);
}

/// Copies an element. Defined in cq_verbs.cpp. REQUIRES: the element is valid
/// (CqRing::peek()).
PolledCompletion copy_completion(const abi::CompletionElement& element);

/// Writes the receive element `index` with the entries of `wr` to `slot`.
void write_receive_element(std::byte* slot, std::uint32_t index, const ibv_recv_wr& wr);

/// Returns slot `index` to the free list. Returns its wr_id, or 0 if the index is out of range.
std::uint64_t return_slot(Srq& srq, std::uint32_t index);

/// Makes later polls skip the completions of `qp` in `cq`, and frees their slots of its shared
/// receive queue. REQUIRES: the engine writes no more completions of `qp`.
void discard_completions(Cq& cq, Qp& qp);

}  // namespace softhca::provider
