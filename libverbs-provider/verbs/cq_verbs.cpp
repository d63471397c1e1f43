// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "libverbs-provider/connections/event_files.hpp"
#include "libverbs-provider/context.hpp"
#include "libverbs-provider/explain.hpp"
#include "libverbs-provider/operations.hpp"
#include "libverbs-provider/verbs/polling.hpp"

namespace softhca::provider {
namespace {

/// Maps the ring of a reply. Returns 0 or an errno value.
int attach(Context& context, const abi::CreateCqReply& reply, ReceivedFds& fds, CqRing& ring) {
  if (reply.new_segment != 0)
    if (const int error = context.segments.announce(reply.ring.segment, fds)) return error;
  if (!std::has_single_bit(reply.entries)) return EPROTO;
  const std::uint64_t needed = sizeof(abi::CompletionRingHeader) +
                               std::uint64_t{reply.entries} * sizeof(abi::CompletionElement);
  std::byte* base = context.segments.find(reply.ring, needed);
  if (base == nullptr) return EPROTO;
  ring.header = reinterpret_cast<abi::CompletionRingHeader*>(base);
  ring.elements =
      reinterpret_cast<abi::CompletionElement*>(base + sizeof(abi::CompletionRingHeader));
  ring.entries = reply.entries;
  ring.consumer = 0;
  return 0;
}

/// Returns 0 or an errno value.
int check_size(const Context& context, int cqe) {
  if (cqe >= 1 && static_cast<std::uint32_t>(cqe) <= context.limits.max_cqe) return 0;
  return refuse(EINVAL, "cqe %d, must be 1 to %u", cqe, context.limits.max_cqe);
}

/// Returns 0 or an errno value. The handle is kNoHandle if `channel` is null.
int find_channel(const Context& context, const ibv_comp_channel* channel, std::uint32_t& handle) {
  handle = abi::kNoHandle;
  if (channel == nullptr) return 0;
  const auto known = channel_handle(context, channel->fd);
  if (!known) return refuse(EINVAL, "the completion channel is of another device context");
  handle = *known;
  return 0;
}

/// Creates the queue. Returns 0 or an errno value.
int create(Context& context, Cq& cq, int cqe, const ibv_comp_channel* channel, int vector) {
  if (const int error = check_size(context, cqe)) return error;
  if (const int vectors = context.ibv()->num_comp_vectors; vector < 0 || vector >= vectors)
    return refuse(EINVAL, "comp_vector %d, must be 0 to %d", vector, vectors - 1);
  abi::CreateCqRequest request{user_handle_of(&cq), static_cast<std::uint32_t>(cqe), 0};
  if (const int error = find_channel(context, channel, request.channel)) return error;
  abi::CreateCqReply reply{};
  ReceivedFds fds;
  int error = 0;
  {
    ControlChannel::Turn turn(context.control);
    error = turn.call(abi::Operation::kCreateCq, request, reply, fds);
    if (error != 0) return error;
    error = attach(context, reply, fds, cq.ring);
    if (error != 0) turn.destroy(abi::Operation::kDestroyCq, reply.handle);
  }
  cq.context = &context;
  cq.base.cq.handle = reply.handle;
  cq.base.cq.cqe = static_cast<int>(reply.entries);
  return error;
}

std::uint32_t elements_waiting(const Cq& cq) {
  std::uint32_t end = cq.ring.consumer;
  while (end - cq.ring.consumer < cq.ring.entries && cq.ring.peek(end) != nullptr) ++end;
  return end - cq.ring.consumer + cq.backlog_count - cq.backlog_next;
}

/// Moves all waiting completions, of an earlier backlog and of `ring`, to `backlog`. REQUIRES:
/// `backlog` is large enough.
std::uint32_t drain(Cq& cq, CqRing& ring, HeapArray<PolledCompletion>& backlog) {
  std::uint32_t count = 0;
  while (cq.backlog_next != cq.backlog_count) backlog[count++] = cq.backlog[cq.backlog_next++];
  for (std::uint32_t taken = 0; taken < ring.entries; ++taken, ++ring.consumer) {
    const abi::CompletionElement* element = ring.peek(ring.consumer);
    if (element == nullptr) break;
    backlog[count++] = copy_completion(*element);
  }
  return count;
}

/// Returns 0 or an errno value. REQUIRES: cq.lock held.
int resize(Context& context, Cq& cq, std::uint32_t entries) {
  if (const std::uint32_t waiting = elements_waiting(cq); waiting > entries)
    return refuse(EINVAL, "cqe %u, must be at least the %u completions in the queue", entries,
                  waiting);
  // The engine may add to the old ring until it answers.
  HeapArray<PolledCompletion> backlog;
  if (!backlog.allocate(cq.ring.entries + (cq.backlog_count - cq.backlog_next))) return ENOMEM;
  CqRing old = cq.ring;
  const abi::ResizeCqRequest request{cq.base.cq.handle, entries};
  abi::CreateCqReply reply{};
  ReceivedFds fds;
  // The next request may make the daemon reuse the place of the old ring.
  ControlChannel::Turn turn(context.control);
  if (const int error = context.segments.call(turn, abi::Operation::kResizeCq, request, reply, fds))
    return error;
  cq.backlog_count = drain(cq, old, backlog);
  cq.backlog_next = 0;
  cq.backlog = std::move(backlog);
  // The engine writes only to the new ring, so without it the queue would never complete anything.
  if (const int error = attach(context, reply, fds, cq.ring)) return turn.give_up(error);
  cq.base.cq.cqe = static_cast<int>(reply.entries);
  return 0;
}

}  // namespace

PolledCompletion copy_completion(const abi::CompletionElement& element) {
  PolledCompletion copy;
  std::memcpy(&copy, &element, offsetof(abi::CompletionElement, owner));
  copy.source_qp = element.owner.load(std::memory_order_relaxed) & 0xffffff;
  return copy;
}

ibv_cq* create_cq(ibv_context* ibv_context, int cqe, ibv_comp_channel* channel, int comp_vector) {
  Owned<Cq> cq(make<Cq>());
  if (cq == nullptr) return nullptr;
  if (const int error = create(*to_context(ibv_context), *cq, cqe, channel, comp_vector)) {
    errno = error;
    return nullptr;
  }
  return &cq.release()->base.cq;
}

ibv_cq_ex* create_cq_ex(ibv_context* ibv_context, ibv_cq_init_attr_ex* init) {
  constexpr std::uint64_t kFields = std::uint64_t{IBV_WC_STANDARD_FLAGS} |
                                    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
  constexpr std::uint32_t kParts = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
  const bool has_flags = (init->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0;
  const std::uint32_t flags = has_flags ? init->flags : 0;
  const auto unsupported = [](const char* field, std::uint64_t bits) {
    if (bits != 0)
      errno = refuse(EOPNOTSUPP, "%s has unsupported bits 0x%llx", field,
                     static_cast<unsigned long long>(bits));
    return bits != 0;
  };
  if (unsupported("wc_flags", init->wc_flags & ~kFields) ||
      unsupported("comp_mask", init->comp_mask & ~kParts) ||
      unsupported("flags", flags & ~std::uint32_t{IBV_CREATE_CQ_ATTR_SINGLE_THREADED}))
    return nullptr;
  constexpr std::uint32_t kMost = 0x7fffffff;  // more gives EINVAL, like any size beyond the limit
  ibv_cq* cq = create_cq(ibv_context, static_cast<int>(std::min(init->cqe, kMost)), init->channel,
                         static_cast<int>(std::min(init->comp_vector, kMost)));
  if (cq == nullptr) return nullptr;
  to_cq(cq)->single_threaded = (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0;
  install_poll_operations(*to_cq(cq), init->wc_flags);
  return &to_cq(cq)->base.cq_ex;
}

int resize_cq(ibv_cq* ibv_cq, int cqe) {
  Cq& cq = *to_cq(ibv_cq);
  if (const int error = check_size(*cq.context, cqe)) return error;
  if (cq.context->control.lost()) return refuse_lost();
  Guard guard(cq.lock);
  return resize(*cq.context, cq, static_cast<std::uint32_t>(cqe));
}

int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attr) {
  if (attr->attr_mask == 0) return refuse(EINVAL, "attr_mask is 0");
  if (attr->attr_mask != IBV_CQ_ATTR_MODERATE)
    return refuse(EOPNOTSUPP, "attr_mask 0x%x, must be IBV_CQ_ATTR_MODERATE", attr->attr_mask);
  const abi::ModifyCqRequest request{cq->handle, attr->moderate.cq_count, attr->moderate.cq_period};
  return to_cq(cq)->context->control.call(abi::Operation::kModifyCq, request);
}

int destroy_cq(ibv_cq* ibv_cq) {
  Cq* cq = to_cq(ibv_cq);
  Context& context = *cq->context;
  if (const int error = context.control.destroy(abi::Operation::kDestroyCq, ibv_cq->handle))
    return error;
  remove(context, cq);
  return 0;
}

int req_notify_cq(ibv_cq* ibv_cq, int solicited_only) {
  Cq& cq = *to_cq(ibv_cq);
  if (cq.context->control.lost()) return failed("ibv_req_notify_cq", refuse_lost());
  // The program polls once more, and must not read the ring before the engine can see the flag.
  Guard guard(cq.lock);  // keeps the ring from being replaced
  cq.ring.header->arm.fetch_or(solicited_only != 0 ? abi::kArmSolicited : abi::kArmAny,
                               std::memory_order_seq_cst);
  return 0;
}

}  // namespace softhca::provider
