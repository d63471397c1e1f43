// Memory regions.
#include <algorithm>
#include <cerrno>
#include <span>

#include "libverbs-provider/context.hpp"
#include "libverbs-provider/heap.hpp"
#include "libverbs-provider/operations.hpp"

namespace softhca::provider {

namespace {

struct Mr {
  abi34::VerbsMr base;
  Array<abi::MrExtent> extents;
  std::size_t extent_count = 0;
};
static_assert(offsetof(Mr, base) == 0);

/// 0 or an errno value.
int send_registration(Context& context, const abi::RegisterMrRequest& request,
                      std::span<const abi::MrExtent> extents, abi::RegisterMrReply& reply) {
  const iovec body[] = {{const_cast<abi::RegisterMrRequest*>(&request), sizeof request},
                        {const_cast<abi::MrExtent*>(extents.data()), extents.size_bytes()}};
  ReceivedFds none;
  return context.control.call(abi::Operation::kRegisterMr, body,
                              std::as_writable_bytes(std::span{&reply, 1}), none);
}

/// Shares the memory and registers it. 0 or an errno value.
int create(Context& context, Mr& mr, abi::RegisterMrRequest& request) {
  const bool dont_fork = ibv_is_fork_initialized() == IBV_FORK_ENABLED;
  ExtentList extents;
  if (const int error = context.memory->prepare({request.addr, request.length, dont_fork}, extents))
    return error;
  const std::span<const abi::MrExtent> all = extents.all();
  request.extents = static_cast<std::uint32_t>(all.size());
  abi::RegisterMrReply reply{};
  const int error =
      mr.extents.allocate(all.size()) ? send_registration(context, request, all, reply) : ENOMEM;
  if (error != 0) {
    context.memory->release(all);
    return error;
  }
  std::copy(all.begin(), all.end(), mr.extents.data());
  mr.extent_count = all.size();
  mr.base.mr.handle = reply.handle;
  mr.base.mr.lkey = reply.lkey;
  mr.base.mr.rkey = reply.rkey;
  return 0;
}

}  // namespace

ibv_mr* reg_mr(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova, int access) {
  const auto begin = reinterpret_cast<std::uintptr_t>(addr);
  // As the kernel: a region has at least one byte and does not wrap around.
  if (length == 0 || begin + length < begin) {
    errno = EINVAL;
    return nullptr;
  }
  Owned<Mr> mr(make<Mr>());
  if (mr == nullptr) return nullptr;
  abi::RegisterMrRequest request{};
  request.addr = begin;
  request.length = length;
  request.iova = (access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : iova;
  request.access = static_cast<std::uint32_t>(access);
  request.pd = pd->handle;
  if (const int error = create(*to_context(pd->context), *mr, request)) {
    errno = error;
    return nullptr;
  }
  ibv_mr& base = mr->base.mr;
  base.context = pd->context;
  base.pd = pd;
  base.addr = addr;
  base.length = length;
  mr->base.access = access;
  return &mr.release()->base.mr;
}

int dereg_mr(abi34::VerbsMr* verbs_mr) {
  Mr* mr = reinterpret_cast<Mr*>(verbs_mr);
  Context& context = *to_context(verbs_mr->mr.context);
  if (const int error = context.control.destroy(abi::Operation::kDeregisterMr, verbs_mr->mr.handle))
    return error;
  context.memory->release({mr->extents.data(), mr->extent_count});
  dispose(mr);
  return 0;
}

}  // namespace softhca::provider
