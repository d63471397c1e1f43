// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <bit>
#include <cerrno>
#include <iterator>

#include "libverbs-provider/connections/event_files.hpp"
#include "libverbs-provider/context.hpp"
#include "libverbs-provider/explain.hpp"
#include "libverbs-provider/operations.hpp"
#include "libverbs-provider/verbs/modify_attributes.hpp"
#include "libverbs-provider/verbs/queues.hpp"
#include "libverbs-provider/verbs/work_requests.hpp"

namespace softhca::provider {
namespace {

/// Maps the send queue of a reply. Returns 0 or an errno value.
int attach_send(Context& context, const abi::CreateQpReply& reply, Sq& queue) {
  if (!std::has_single_bit(reply.send_entries) || reply.max_send_wr > reply.send_entries ||
      reply.max_inline > abi::kMaxInline || reply.max_send_sge > abi::kMaxSge)
    return EPROTO;
  queue.stride = abi::send_stride(reply.max_send_sge, reply.max_inline);
  const std::size_t tail = abi::send_ring_tail(reply.send_entries, queue.stride);
  queue.ring = context.segments.find(reply.send_ring, tail + sizeof *queue.tail);
  if (queue.ring == nullptr) return EPROTO;
  queue.tail = reinterpret_cast<abi::SendRingTail*>(queue.ring + tail);
  queue.mask = reply.send_entries - 1;
  queue.max_wr = reply.max_send_wr;
  queue.max_sge = reply.max_send_sge;
  queue.max_inline = reply.max_inline;
  return queue.wr_ids.allocate(reply.send_entries) ? 0 : ENOMEM;
}

/// Maps the receive queue of a reply. Returns 0 or an errno value.
int attach_receive(Context& context, const abi::CreateQpReply& reply, Rq& queue) {
  if (!std::has_single_bit(reply.receive_entries) || reply.max_receive_wr > reply.receive_entries)
    return EPROTO;
  queue.stride = abi::receive_stride(reply.max_receive_sge);
  const std::uint64_t needed =
      sizeof(abi::ReceiveRingHeader) + std::uint64_t{reply.receive_entries} * queue.stride;
  std::byte* base = context.segments.find(reply.receive_ring, needed);
  if (base == nullptr) return EPROTO;
  queue.header = reinterpret_cast<abi::ReceiveRingHeader*>(base);
  queue.elements = base + sizeof(abi::ReceiveRingHeader);
  queue.mask = reply.receive_entries - 1;
  queue.max_wr = reply.max_receive_wr;
  queue.max_sge = reply.max_receive_sge;
  return queue.wr_ids.allocate(reply.receive_entries) ? 0 : ENOMEM;
}

/// Maps the queues of a reply. Returns 0 or an errno value.
int attach(Context& context, const abi::CreateQpReply& reply, ReceivedFds& fds, Qp& qp) {
  if (qp.type == IBV_QPT_XRC_RECV) return 0;  // it has no posts and no completions
  if (reply.new_segment != 0)
    if (const int error = context.segments.announce(reply.send_ring.segment, fds)) return error;
  if (const int error = attach_send(context, reply, qp.send)) return error;
  if (qp.srq == nullptr && qp.type != IBV_QPT_XRC_SEND)
    if (const int error = attach_receive(context, reply, qp.receive)) return error;
  return context.qps.insert(reply.qpn, &qp) ? 0 : ENOMEM;
}

std::uint32_t domain_handle(ibv_xrcd* xrcd) {
  return reinterpret_cast<abi34::VerbsXrcd*>(xrcd)->handle;
}

bool supported(ibv_qp_type type) {
  return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD ||
         type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

/// Checks the options that only ibv_create_qp_ex() has. Returns 0 or an errno value.
int check_extensions(const ibv_qp_init_attr_ex& init) {
  constexpr std::uint32_t kParts = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                                   IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_MAX_TSO_HEADER |
                                   IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  if (!supported(init.qp_type))
    return refuse(EOPNOTSUPP, "qp_type %d is not supported", static_cast<int>(init.qp_type));
  if ((init.comp_mask & ~kParts) != 0)
    return refuse(EOPNOTSUPP, "comp_mask has unsupported bits 0x%x", init.comp_mask & ~kParts);
  const bool target = init.qp_type == IBV_QPT_XRC_RECV;
  const bool has_domain = target ? (init.comp_mask & IBV_QP_INIT_ATTR_XRCD) != 0 && init.xrcd
                                 : (init.comp_mask & IBV_QP_INIT_ATTR_PD) != 0 && init.pd;
  if (!has_domain)
    return refuse(EINVAL, "no %s, which type %s needs", target ? "xrcd" : "pd",
                  name_of_type(init.qp_type));
  if ((init.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && init.create_flags != 0)
    return refuse(EOPNOTSUPP, "create_flags 0x%x, must be 0", init.create_flags);
  if ((init.comp_mask & IBV_QP_INIT_ATTR_MAX_TSO_HEADER) != 0 && init.max_tso_header != 0)
    return refuse(EOPNOTSUPP, "max_tso_header %u, must be 0", init.max_tso_header);
  if ((init.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) == 0) return 0;
  return check_send_operations(init.qp_type, init.send_ops_flags);
}

/// Returns the inline bytes needed by operations with their data in the command.
std::uint32_t inline_needed(const ibv_qp_init_attr_ex& init) {
  const bool named = (init.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  return named && (init.send_ops_flags & IBV_QP_EX_WITH_ATOMIC_WRITE) != 0 ? 8 : 0;
}

/// Removes what the type does not have: an XRC initiator has no receives, and an XRC target only
/// its domain.
ibv_qp_init_attr_ex reduced(const ibv_qp_init_attr_ex& given) {
  ibv_qp_init_attr_ex init = given;
  const bool target = init.qp_type == IBV_QPT_XRC_RECV;
  if (!target && init.qp_type != IBV_QPT_XRC_SEND) return init;
  init.recv_cq = nullptr;
  init.srq = nullptr;
  init.cap.max_recv_wr = init.cap.max_recv_sge = 0;
  if (!target) return init;
  init.pd = nullptr;
  init.send_cq = nullptr;
  init.cap = {};
  return init;
}

/// Creates the queue pair. Returns 0 or an errno value. REQUIRES: `init` comes from reduced().
int create(Context& context, Qp& qp, const ibv_qp_init_attr_ex& init) {
  const bool target = init.qp_type == IBV_QPT_XRC_RECV;
  const bool receives = !target && init.qp_type != IBV_QPT_XRC_SEND;
  if (!target && init.send_cq == nullptr) return refuse(EINVAL, "send_cq is NULL");
  if (receives && init.recv_cq == nullptr) return refuse(EINVAL, "recv_cq is NULL");
  abi::CreateQpRequest request{};
  request.user_handle = user_handle_of(&qp);
  request.pd = target ? abi::kNoHandle : init.pd->handle;
  request.type = init.qp_type;
  request.send_cq = target ? abi::kNoHandle : init.send_cq->handle;
  request.receive_cq = receives ? init.recv_cq->handle : abi::kNoHandle;
  request.xrc_domain = target ? domain_handle(init.xrcd) : abi::kNoHandle;
  request.srq = init.srq != nullptr ? init.srq->handle : abi::kNoHandle;
  request.max_send_wr = init.cap.max_send_wr;
  request.max_receive_wr = init.srq != nullptr ? 0 : init.cap.max_recv_wr;
  request.max_send_sge = init.cap.max_send_sge;
  request.max_receive_sge = init.srq != nullptr ? 0 : init.cap.max_recv_sge;
  request.max_inline = std::max(init.cap.max_inline_data, inline_needed(init));
  request.signal_all = init.sq_sig_all != 0 ? 1 : 0;

  abi::CreateQpReply reply{};
  ReceivedFds fds;
  qp.context = &context;
  qp.type = init.qp_type;
  qp.srq = init.srq != nullptr ? to_srq(init.srq) : nullptr;
  qp.signal_all = init.sq_sig_all != 0;
  int error = 0;
  {
    ControlChannel::Turn turn(context.control);
    error = turn.call(abi::Operation::kCreateQp, request, reply, fds);
    if (error != 0) return error;
    qp.qpn = reply.qpn;
    error = attach(context, reply, fds, qp);
    if (error != 0) turn.destroy(abi::Operation::kDestroyQp, reply.qpn);
  }
  return error;
}

ibv_qp_cap capabilities(const Qp& qp) {
  return {qp.send.max_wr, qp.receive.max_wr, qp.send.max_sge, qp.receive.max_sge,
          qp.send.max_inline};
}

/// Sets all fields, because versions of the library differ in those that they set themselves.
void fill_public_part(Qp& qp, ibv_context* context, const ibv_qp_init_attr_ex& init) {
  ibv_qp& base = qp.base.qp;
  base.context = context;
  base.qp_context = init.qp_context;
  base.pd = init.pd;
  base.send_cq = init.send_cq;
  base.recv_cq = init.recv_cq;
  base.srq = init.srq;
  base.handle = qp.qpn;
  base.qp_num = qp.qpn;
  base.state = IBV_QPS_RESET;
  base.qp_type = init.qp_type;
  pthread_mutex_init(&base.mutex, nullptr);
  pthread_cond_init(&base.cond, nullptr);
}

void discard_all_completions(Qp& qp) {
  ibv_cq* const send_cq = qp.base.qp.send_cq;
  ibv_cq* const receive_cq = qp.base.qp.recv_cq;
  if (send_cq != nullptr) discard_completions(*to_cq(send_cq), qp);
  if (receive_cq != nullptr && receive_cq != send_cq) discard_completions(*to_cq(receive_cq), qp);
}

/// Changes the state in one turn, so that requests of two threads do not overtake each other.
/// Returns 0 or an errno value.
int change_state(Qp& qp, const abi::ModifyQpRequest& request, bool changes, int state) {
  ControlChannel::Turn turn(qp.context->control);
  const int error = turn.call(abi::Operation::kModifyQp, request);
  if (error == 0 && changes) qp.state.store(state, std::memory_order_release);
  return error;
}

/// Returns the sequence number of the next command. A concurrent post comes before it or after it.
/// In a forked child, the thread that holds the lock may not exist.
std::uint32_t next_sequence(Qp& qp) {
  if (qp.context->control.lost()) return 0;
  Guard guard(qp.send.lock);
  return qp.send.next;
}

/// Moves the queue pair to RESET. Receives count from 0 again. Commands keep counting: old ones may
/// still be in collect buffers and doorbells, and their sequence numbers identify them as old.
/// Returns 0 or an errno value.
int reset(Qp& qp, abi::ModifyQpRequest& request) {
  {
    Guard guard(qp.send.lock);  // prevents posts between the number and the change
    request.send_sequence = qp.send.next;
    if (const int error = change_state(qp, request, true, IBV_QPS_RESET)) return error;
  }
  // Without the send lock: a polling thread may hold the lock of the completion queue and wait for
  // that of the send queue.
  discard_all_completions(qp);
  qp.send.completed.store(request.send_sequence, std::memory_order_release);
  qp.flushing.store(false, std::memory_order_relaxed);
  if (qp.receive.header == nullptr) return 0;
  Guard guard(qp.receive.lock);
  qp.receive.next = 0;
  qp.receive.completed.store(0, std::memory_order_relaxed);
  qp.receive.header->producer.store(0, std::memory_order_release);
  return 0;
}

}  // namespace

const char* name_of_type(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_RC:
      return "RC";
    case IBV_QPT_UC:
      return "UC";
    case IBV_QPT_UD:
      return "UD";
    case IBV_QPT_XRC_SEND:
      return "XRC_SEND";
    case IBV_QPT_XRC_RECV:
      return "XRC_RECV";
    default:
      return "of another kind";
  }
}

const char* name_of_state(int state) {
  constexpr const char* kNames[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  const auto index = static_cast<std::size_t>(state);
  return index < std::size(kNames) ? kNames[index] : "an unknown state";
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* init) {
  Owned<Qp> qp(make<Qp>());
  if (qp == nullptr) return nullptr;
  int error = check_extensions(*init);
  const ibv_qp_init_attr_ex used = reduced(*init);
  if (error == 0) error = create(*to_context(context), *qp, used);
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  init->cap = capabilities(*qp);
  fill_public_part(*qp, context, used);
  if ((init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0)
    install_send_operations(*qp, init->send_ops_flags);
  return &qp.release()->base.qp;
}

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* init) {
  ibv_qp_init_attr_ex extended{};
  extended.qp_context = init->qp_context;
  extended.send_cq = init->send_cq;
  extended.recv_cq = init->recv_cq;
  extended.srq = init->srq;
  extended.cap = init->cap;
  extended.qp_type = init->qp_type;
  extended.sq_sig_all = init->sq_sig_all;
  extended.comp_mask = IBV_QP_INIT_ATTR_PD;
  extended.pd = pd;
  ibv_qp* qp = create_qp_ex(pd->context, &extended);
  if (qp != nullptr) init->cap = extended.cap;
  return qp;
}

ibv_qp* open_qp(ibv_context* ibv_context, ibv_qp_open_attr* attr) {
  constexpr std::uint32_t kNeeded =
      IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  Context& context = *to_context(ibv_context);
  Owned<Qp> qp(make<Qp>());
  if (qp == nullptr) return nullptr;
  int error = 0;
  abi::HandleBody reply{};
  if ((attr->comp_mask & ~(kNeeded | IBV_QP_OPEN_ATTR_CONTEXT)) != 0)
    error = refuse(EOPNOTSUPP, "comp_mask has unsupported bits 0x%x",
                   attr->comp_mask & ~(kNeeded | IBV_QP_OPEN_ATTR_CONTEXT));
  else if ((attr->comp_mask & kNeeded) != kNeeded || attr->xrcd == nullptr ||
           attr->qp_type != IBV_QPT_XRC_RECV)
    error = refuse(EINVAL, "needs the number, the XRC domain and type XRC_RECV");
  else
    error = context.control.call(
        abi::Operation::kOpenQp,
        abi::OpenQpRequest{user_handle_of(qp.get()), domain_handle(attr->xrcd), attr->qp_num},
        reply);
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  qp->context = &context;
  qp->qpn = attr->qp_num;
  qp->type = IBV_QPT_XRC_RECV;
  qp->opened = true;
  ibv_qp_init_attr_ex init{};
  init.qp_type = IBV_QPT_XRC_RECV;
  if ((attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0) init.qp_context = attr->qp_context;
  fill_public_part(*qp, ibv_context, init);
  qp->base.qp.handle = reply.handle;
  return &qp.release()->base.qp;
}

int modify_qp(ibv_qp* ibv_qp, ibv_qp_attr* attr, int mask) {
  Qp& qp = *to_qp(ibv_qp);
  abi::ModifyQpRequest request{qp.qpn, 0, to_qp_attributes(*attr, mask)};
  const bool changes = (mask & IBV_QP_STATE) != 0;
  if (changes && attr->qp_state == IBV_QPS_RESET) return reset(qp, request);
  if (changes) request.send_sequence = next_sequence(qp);
  return change_state(qp, request, changes, attr->qp_state);
}

int query_qp(ibv_qp* ibv_qp, ibv_qp_attr* attr, int, ibv_qp_init_attr* init) {
  Qp& qp = *to_qp(ibv_qp);
  abi::QueryQpReply reply{};
  {
    ControlChannel::Turn turn(qp.context->control);
    const int error = turn.call(abi::Operation::kQueryQp, abi::HandleBody{qp.qpn, 0}, reply);
    if (error != 0) return error;
    *attr = from_qp_attributes(reply.attributes);
    qp.state.store(attr->qp_state, std::memory_order_release);
  }
  attr->cap = capabilities(qp);
  *init = {};
  init->qp_context = ibv_qp->qp_context;
  init->send_cq = ibv_qp->send_cq;
  init->recv_cq = ibv_qp->recv_cq;
  init->srq = ibv_qp->srq;
  init->cap = capabilities(qp);
  init->qp_type = qp.type;
  init->sq_sig_all = qp.signal_all ? 1 : 0;
  return 0;
}

int destroy_qp(ibv_qp* ibv_qp) {
  Qp* qp = to_qp(ibv_qp);
  Context& context = *qp->context;
  const int error =
      qp->opened ? context.control.destroy(abi::Operation::kCloseQp, ibv_qp->handle)
                 : context.control.destroy(abi::Operation::kDestroyQp,
                                           abi::DestroyQpRequest{qp->qpn, next_sequence(*qp)});
  if (error != 0) return error;
  discard_all_completions(*qp);
  if (qp->type != IBV_QPT_XRC_RECV) context.qps.remove(qp->qpn);
  remove(context, qp);
  return 0;
}

}  // namespace softhca::provider
