// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "libverbs-provider/connections/event_files.hpp"
#include "libverbs-provider/context.hpp"
#include "libverbs-provider/explain.hpp"
#include "libverbs-provider/operations.hpp"
#include "libverbs-provider/verbs/queues.hpp"

namespace softhca::provider {
namespace {

/// Makes room for `count` slots in all. Returns 0 or an errno value.
int add_slots(Srq& srq, std::uint32_t count) {
  if (count <= srq.slots) return 0;
  HeapArray<std::uint32_t> free_slots;
  HeapArray<std::uint64_t> wr_ids;
  if (!free_slots.allocate(count) || !wr_ids.allocate(count)) return ENOMEM;
  // The slot to take next is the last one.
  std::uint32_t free_count = 0;
  while (count - free_count > srq.slots) {
    free_slots[free_count] = count - 1 - free_count;
    ++free_count;
  }
  for (std::uint32_t i = 0; i < srq.free_count; ++i) free_slots[free_count++] = srq.free_slots[i];
  for (std::uint32_t i = 0; i < srq.slots; ++i) wr_ids[i] = srq.wr_ids[i];
  srq.free_slots = std::move(free_slots);
  srq.wr_ids = std::move(wr_ids);
  srq.free_count = free_count;
  srq.slots = count;
  return 0;
}

/// Maps the ring of a reply. Returns 0 or an errno value.
int attach(Context& context, const abi::CreateSrqReply& reply, ReceivedFds& fds, Srq& srq) {
  if (reply.new_segment != 0)
    if (const int error = context.segments.announce(reply.ring.segment, fds)) return error;
  if (!std::has_single_bit(reply.entries) || reply.max_wr > reply.entries) return EPROTO;
  srq.stride = abi::receive_stride(reply.max_sge);
  const std::uint64_t needed =
      sizeof(abi::ReceiveRingHeader) + std::uint64_t{reply.entries} * srq.stride;
  std::byte* base = context.segments.find(reply.ring, needed);
  if (base == nullptr) return EPROTO;
  srq.header = reinterpret_cast<abi::ReceiveRingHeader*>(base);
  srq.elements = base + sizeof(abi::ReceiveRingHeader);
  srq.mask = reply.entries - 1;
  srq.max_wr = reply.max_wr;
  srq.max_sge = reply.max_sge;
  return add_slots(srq, srq.max_wr);
}

bool is_xrc(const ibv_srq_init_attr_ex& init) {
  return (init.comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 && init.srq_type == IBV_SRQT_XRC;
}

/// Sends the request to create. Returns 0 or an errno value.
int ask(Context& context, ControlChannel::Turn& turn, Srq& srq, const ibv_srq_init_attr_ex& init,
        abi::CreateSrqReply& reply, ReceivedFds& fds) {
  abi::CreateXrcSrqRequest request{};
  request.srq = {user_handle_of(&srq), init.pd->handle, init.attr.max_wr, init.attr.max_sge,
                 init.attr.srq_limit};
  if (!is_xrc(init)) return turn.call(abi::Operation::kCreateSrq, request.srq, reply, fds);
  request.xrc_domain = reinterpret_cast<abi34::VerbsXrcd*>(init.xrcd)->handle;
  request.cq = init.cq->handle;
  return context.segments.call(turn, abi::Operation::kCreateSrq, request, reply, fds);
}

/// Creates the queue. Returns 0 or an errno value.
int create(Context& context, Srq& srq, const ibv_srq_init_attr_ex& init) {
  abi::CreateSrqReply reply{};
  ReceivedFds fds;
  int error = 0;
  {
    ControlChannel::Turn turn(context.control);
    error = ask(context, turn, srq, init, reply, fds);
    if (error != 0) return error;
    error = attach(context, reply, fds, srq);
    srq.context = &context;
    srq.base.srq.handle = reply.handle;
    srq.base.srq_num = reply.number;
    if (error == 0 && is_xrc(init) && !context.xrc_srqs.insert(reply.number, &srq)) error = ENOMEM;
    if (error != 0) turn.destroy(abi::Operation::kDestroySrq, reply.handle);
  }
  return error;
}

/// Checks the attributes. Returns 0 or an errno value.
int check(const ibv_srq_init_attr_ex& init) {
  constexpr std::uint32_t kParts =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  const bool typed = (init.comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0;
  if ((init.comp_mask & ~kParts) != 0)
    return refuse(EOPNOTSUPP, "comp_mask has unsupported bits 0x%x", init.comp_mask & ~kParts);
  if (typed && init.srq_type != IBV_SRQT_BASIC && init.srq_type != IBV_SRQT_XRC)
    return refuse(EOPNOTSUPP, "srq_type %d is not supported", static_cast<int>(init.srq_type));
  const std::uint32_t needed = is_xrc(init) ? kParts : std::uint32_t{IBV_SRQ_INIT_ATTR_PD};
  if ((init.comp_mask & needed) != needed)
    return refuse(EINVAL, "comp_mask 0x%x lacks 0x%x", init.comp_mask, needed & ~init.comp_mask);
  if (init.pd == nullptr) return refuse(EINVAL, "pd is NULL");
  const bool has_all = !is_xrc(init) || (init.xrcd != nullptr && init.cq != nullptr);
  return has_all ? 0 : refuse(EINVAL, "xrcd or cq is NULL");
}

/// Changes the size. Returns 0 or an errno value. REQUIRES: srq.lock held, so that no thread posts
/// meanwhile.
int resize(Context& context, Srq& srq, const abi::ResizeSrqRequest& request) {
  const std::uint32_t least = std::max(srq.outstanding(), 1u);
  if (request.max_wr < least || request.max_wr > context.limits.max_srq_wr)
    return refuse(EINVAL, "max_wr %u, must be %u (receives without a polled completion) to %u",
                  request.max_wr, least, context.limits.max_srq_wr);
  if (const int error = add_slots(srq, request.max_wr)) return error;
  abi::CreateSrqReply reply{};
  ReceivedFds fds;
  ControlChannel::Turn turn(context.control);
  if (const int error =
          context.segments.call(turn, abi::Operation::kResizeSrq, request, reply, fds))
    return error;
  // The engine reads only the new ring, so without it the queue would never receive again.
  if (const int error = attach(context, reply, fds, srq)) return turn.give_up(error);
  return 0;
}

}  // namespace

std::uint64_t return_slot(Srq& srq, std::uint32_t index) {
  Guard guard(srq.lock);
  if (index >= srq.slots) return 0;
  const std::uint64_t wr_id = srq.wr_ids[index];
  if (srq.free_count < srq.slots) srq.free_slots[srq.free_count++] = index;
  return wr_id;
}

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* init) {
  Owned<Srq> srq(make<Srq>());
  if (srq == nullptr) return nullptr;
  int error = check(*init);
  if (error == 0) error = create(*to_context(context), *srq, *init);
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  init->attr.max_wr = srq->max_wr;
  init->attr.max_sge = srq->max_sge;
  srq->base.type = IBV_SRQT_BASIC;
  if (is_xrc(*init)) {
    srq->base.type = IBV_SRQT_XRC;
    srq->base.xrcd = init->xrcd;
    srq->base.cq = init->cq;
  }
  ibv_srq& base = srq->base.srq;
  base.context = context;
  base.srq_context = init->srq_context;
  base.pd = init->pd;
  pthread_mutex_init(&base.mutex, nullptr);
  pthread_cond_init(&base.cond, nullptr);
  return &srq.release()->base.srq;
}

ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* init) {
  ibv_srq_init_attr_ex extended{};
  extended.srq_context = init->srq_context;
  extended.attr = init->attr;
  extended.comp_mask = IBV_SRQ_INIT_ATTR_PD;
  extended.pd = pd;
  ibv_srq* srq = create_srq_ex(pd->context, &extended);
  if (srq != nullptr) init->attr = extended.attr;
  return srq;
}

/// Returns the number of an XRC shared receive queue; others have none.
int get_srq_num(ibv_srq* srq, std::uint32_t* number) {
  if (to_srq(srq)->base.type != IBV_SRQT_XRC)
    return refuse(EINVAL, "only shared receive queues of XRC have a number");
  *number = to_srq(srq)->base.srq_num;
  return 0;
}

int modify_srq(ibv_srq* ibv_srq, ibv_srq_attr* attr, int mask) {
  Srq& srq = *to_srq(ibv_srq);
  Context& context = *srq.context;
  if (const int unknown = mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
    return refuse(EINVAL, "srq_attr_mask has unknown bits 0x%x", static_cast<unsigned>(unknown));
  const bool sets_limit = (mask & IBV_SRQ_LIMIT) != 0;
  if ((mask & IBV_SRQ_MAX_WR) != 0) {
    if ((context.limits.capabilities & abi::kCanResizeSrq) == 0)
      return refuse(EOPNOTSUPP, "the daemon cannot resize shared receive queues");
    if (context.control.lost()) return refuse_lost();
    const abi::ResizeSrqRequest request{ibv_srq->handle, attr->max_wr,
                                        sets_limit ? attr->srq_limit : 0, sets_limit ? 1u : 0u};
    Guard guard(srq.lock);
    return resize(context, srq, request);
  }
  if (!sets_limit) return 0;
  const abi::ModifySrqRequest request{ibv_srq->handle, attr->srq_limit};
  return context.control.call(abi::Operation::kModifySrq, request);
}

int query_srq(ibv_srq* srq, ibv_srq_attr* attr) {
  abi::QuerySrqReply reply{};
  const int error = to_srq(srq)->context->control.call(abi::Operation::kQuerySrq,
                                                       abi::HandleBody{srq->handle, 0}, reply);
  if (error != 0) return error;
  *attr = {reply.max_wr, reply.max_sge, reply.limit};
  return 0;
}

int destroy_srq(ibv_srq* ibv_srq) {
  Srq* srq = to_srq(ibv_srq);
  Context& context = *srq->context;
  if (const int error = context.control.destroy(abi::Operation::kDestroySrq, ibv_srq->handle))
    return error;
  // Later polls skip its remaining completions.
  if (srq->base.type == IBV_SRQT_XRC) context.xrc_srqs.remove(srq->base.srq_num);
  remove(context, srq);
  return 0;
}

}  // namespace softhca::provider
