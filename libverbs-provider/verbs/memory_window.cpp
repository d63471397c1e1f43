// SPDX-License-Identifier: Apache-2.0

#include <cerrno>

#include "libverbs-provider/context.hpp"
#include "libverbs-provider/explain.hpp"
#include "libverbs-provider/heap.hpp"
#include "libverbs-provider/operations.hpp"
#include "libverbs-provider/verbs/send_commands.hpp"

namespace softhca::provider {

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  Owned<ibv_mw> mw(make<ibv_mw>());
  if (mw == nullptr) return nullptr;
  const abi::AllocWindowRequest request{pd->handle, static_cast<std::uint32_t>(type)};
  abi::AllocWindowReply reply{};
  ControlChannel& control = to_context(pd->context)->control;
  if (const int error = control.call(abi::Operation::kAllocWindow, request, reply)) {
    errno = error;
    return nullptr;
  }
  *mw = {pd->context, pd, reply.rkey, reply.handle, type};
  return mw.release();
}

int dealloc_mw(ibv_mw* mw) {
  ControlChannel& control = to_context(mw->context)->control;
  if (const int error = control.destroy(abi::Operation::kDeallocWindow, mw->handle)) return error;
  dispose(mw);
  return 0;
}

/// Binds a window of type 1; each bind changes its key.
int bind_mw(ibv_qp* ibv_qp, ibv_mw* mw, ibv_mw_bind* bind) {
  Qp& qp = *to_qp(ibv_qp);
  if (!in(opcodes_of(qp.type), IBV_WR_BIND_MW)) return refuse_opcode(qp, IBV_WR_BIND_MW);
  const std::uint32_t rkey = ibv_inc_rkey(mw->rkey);
  abi::CommandHeader header{};
  header.opcode = IBV_WR_BIND_MW;
  header.flags = command_flags(qp, bind->send_flags & ~unsigned{IBV_SEND_INLINE});
  if (const int error = fill_bind(header, mw, rkey, bind->bind_info)) return error;
  Guard guard(qp.send.lock);
  if (const int error = may_post(qp)) return error;
  if (is_full(qp.send)) return refuse_full(qp.send);
  const std::uint32_t first = qp.send.next;
  append(qp, header, bind->wr_id);
  const int error = announce(qp, first);
  if (error == 0) mw->rkey = rkey;
  return error;
}

}  // namespace softhca::provider
