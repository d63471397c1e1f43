#include <bit>
#include <cerrno>

#include "libverbs-provider/context.hpp"
#include "libverbs-provider/event_files.hpp"
#include "libverbs-provider/operations.hpp"
#include "libverbs-provider/queues.hpp"

namespace softhca::provider {
namespace {

/// 0 or an errno value.
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
  if (!srq.free_slots.allocate(srq.max_wr) || !srq.wr_ids.allocate(srq.max_wr)) return ENOMEM;
  for (std::uint32_t i = 0; i < srq.max_wr; ++i) srq.free_slots[i] = srq.max_wr - 1 - i;
  srq.free_count = srq.max_wr;
  return 0;
}

bool is_xrc(const ibv_srq_init_attr_ex& init) {
  return (init.comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 && init.srq_type == IBV_SRQT_XRC;
}

/// 0 or an errno value.
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

/// 0 or an errno value.
int create(Context& context, Srq& srq, const ibv_srq_init_attr_ex& init) {
  abi::CreateSrqReply reply{};
  ReceivedFds fds;
  int error = 0;
  {
    ControlChannel::Turn turn(context.control);
    error = ask(context, turn, srq, init, reply, fds);
    if (error != 0) return error;
    error = attach(context, reply, fds, srq);
  }
  srq.context = &context;
  srq.base.srq.handle = reply.handle;
  srq.base.srq_num = reply.number;
  if (error == 0 && is_xrc(init) && !context.xrc_srqs.insert(reply.number, &srq)) error = ENOMEM;
  if (error != 0) context.control.destroy(abi::Operation::kDestroySrq, reply.handle);
  return error;
}

/// 0 or an errno value.
int check(const ibv_srq_init_attr_ex& init) {
  constexpr std::uint32_t kParts =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  const bool typed = (init.comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0;
  if ((init.comp_mask & ~kParts) != 0) return EOPNOTSUPP;
  if (typed && init.srq_type != IBV_SRQT_BASIC && init.srq_type != IBV_SRQT_XRC) return EOPNOTSUPP;
  const std::uint32_t needed = is_xrc(init) ? kParts : std::uint32_t{IBV_SRQ_INIT_ATTR_PD};
  if ((init.comp_mask & needed) != needed || init.pd == nullptr) return EINVAL;
  return is_xrc(init) && (init.xrcd == nullptr || init.cq == nullptr) ? EINVAL : 0;
}

}  // namespace

std::uint64_t return_slot(Srq& srq, std::uint32_t index) {
  if (index >= srq.max_wr) return 0;
  Guard guard(srq.lock);
  const std::uint64_t wr_id = srq.wr_ids[index];
  if (srq.free_count < srq.max_wr) srq.free_slots[srq.free_count++] = index;
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

/// Only a queue of XRC has a number.
int get_srq_num(ibv_srq* srq, std::uint32_t* number) {
  if (to_srq(srq)->base.type != IBV_SRQT_XRC) return EINVAL;
  *number = to_srq(srq)->base.srq_num;
  return 0;
}

int modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  if ((mask & IBV_SRQ_MAX_WR) != 0) return EOPNOTSUPP;  // the device does not resize them
  if ((mask & IBV_SRQ_LIMIT) == 0) return 0;
  const abi::ModifySrqRequest request{srq->handle, attr->srq_limit};
  return to_srq(srq)->context->control.call(abi::Operation::kModifySrq, request);
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
  // Its completions that nobody polled are passed over from now on.
  if (srq->base.type == IBV_SRQT_XRC) context.xrc_srqs.remove(srq->base.srq_num);
  remove(context, srq);
  return 0;
}

}  // namespace softhca::provider
