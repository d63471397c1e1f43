// Protection domains and memory regions.
#include <cerrno>

#include "libverbs-provider/context.hpp"
#include "libverbs-provider/heap.hpp"
#include "libverbs-provider/operations.hpp"

namespace softhca::provider {

ibv_pd* alloc_pd(ibv_context* ibv_context) {
  Context& context = *to_context(ibv_context);
  Owned<ibv_pd> pd(make<ibv_pd>());
  if (pd == nullptr) return nullptr;
  abi::HandleBody reply{};
  if (const int error = context.control.call(abi::Operation::kAllocPd, abi::HandleBody{}, reply)) {
    errno = error;
    return nullptr;
  }
  pd->context = ibv_context;
  pd->handle = reply.handle;
  return pd.release();
}

int dealloc_pd(ibv_pd* pd) {
  ControlChannel& control = to_context(pd->context)->control;
  if (const int error = control.destroy(abi::Operation::kDeallocPd, pd->handle)) return error;
  dispose(pd);
  return 0;
}

ibv_mr* reg_mr(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova, int access) {
  Context& context = *to_context(pd->context);
  const auto begin = reinterpret_cast<std::uintptr_t>(addr);
  // As the kernel: a region has at least one byte and does not wrap around.
  if (length == 0 || begin + length < begin) {
    errno = EINVAL;
    return nullptr;
  }
  Owned<abi34::VerbsMr> mr(make<abi34::VerbsMr>());
  if (mr == nullptr) return nullptr;

  abi::RegisterMrRequest request{};
  request.addr = begin;
  request.length = length;
  request.iova = (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : iova;
  request.access = static_cast<std::uint32_t>(access);
  request.pd = pd->handle;
  request.extents = 1;
  const abi::MrExtent extent{begin, length, 0, 0,
                             static_cast<std::uint32_t>(abi::ExtentKind::kProcess)};
  const iovec body[] = {{&request, sizeof request},
                        {const_cast<abi::MrExtent*>(&extent), sizeof extent}};
  abi::RegisterMrReply reply{};
  ReceivedFds none;
  const int error = context.control.call(abi::Operation::kRegisterMr, body,
                                         std::as_writable_bytes(std::span{&reply, 1}), none);
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  mr->mr = {pd->context, pd, addr, length, reply.handle, reply.lkey, reply.rkey};
  mr->access = access;
  return &mr.release()->mr;
}

int dereg_mr(abi34::VerbsMr* mr) {
  ControlChannel& control = to_context(mr->mr.context)->control;
  if (const int error = control.destroy(abi::Operation::kDeregisterMr, mr->mr.handle)) return error;
  dispose(mr);
  return 0;
}

}  // namespace softhca::provider
