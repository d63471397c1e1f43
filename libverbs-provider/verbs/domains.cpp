// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/verbs/domains.hpp"

#include <cerrno>

#include "libverbs-provider/context.hpp"
#include "libverbs-provider/explain.hpp"
#include "libverbs-provider/heap.hpp"
#include "libverbs-provider/operations.hpp"

namespace softhca::provider {

ibv_pd* alloc_pd(ibv_context* ibv_context) {
  Context& context = *to_context(ibv_context);
  Owned<Pd> pd(make<Pd>());
  if (pd == nullptr) return nullptr;
  abi::HandleBody reply{};
  if (const int error = context.control.call(abi::Operation::kAllocPd, abi::HandleBody{}, reply)) {
    errno = error;
    return nullptr;
  }
  pd->base = {ibv_context, reply.handle};
  return &pd.release()->base;
}

int dealloc_pd(ibv_pd* ibv_pd) {
  Pd* pd = reinterpret_cast<Pd*>(ibv_pd);
  if (const std::uint32_t users = pd->users.load(std::memory_order_acquire))
    return refuse(EBUSY, "in use by %u parent domain%s", users, users == 1 ? "" : "s");
  if (pd->parent_of != nullptr) {
    pd->parent_of->users.fetch_sub(1, std::memory_order_release);
    if (pd->td != nullptr) pd->td->users.fetch_sub(1, std::memory_order_release);
    dispose(pd);
    return 0;
  }
  ControlChannel& control = to_context(ibv_pd->context)->control;
  if (const int error = control.destroy(abi::Operation::kDeallocPd, ibv_pd->handle)) return error;
  dispose(pd);
  return 0;
}

ibv_pd* import_pd(ibv_context* ibv_context, std::uint32_t handle) {
  ControlChannel& control = to_context(ibv_context)->control;
  Owned<Pd> pd(make<Pd>());
  if (pd == nullptr) return nullptr;
  if (const int error = control.call(abi::Operation::kImportPd, abi::HandleBody{handle, 0})) {
    errno = error;
    return nullptr;
  }
  pd->base = {ibv_context, handle};
  return &pd.release()->base;
}

/// Releases an imported domain, which continues to exist for others.
void unimport_pd(ibv_pd* pd) { dispose(reinterpret_cast<Pd*>(pd)); }

/// A thread domain is a promise to use its objects from one thread at a time. It saves nothing
/// here, because uncontended locks cost almost nothing.
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* init) {
  if (init->comp_mask != 0) {
    errno = refuse(EINVAL, "comp_mask 0x%x, must be 0", init->comp_mask);
    return nullptr;
  }
  Td* td = make<Td>();
  if (td == nullptr) return nullptr;
  td->base.context = context;
  return &td->base;
}

int dealloc_td(ibv_td* ibv_td) {
  Td* td = reinterpret_cast<Td*>(ibv_td);
  if (const std::uint32_t users = td->users.load(std::memory_order_acquire))
    return refuse(EBUSY, "in use by %u parent domain%s", users, users == 1 ? "" : "s");
  dispose(td);
  return 0;
}

/// Accepts allocators but never calls them, because the daemon provides the memory of queues.
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* init) {
  constexpr std::uint32_t kKnown =
      IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  if (init->pd == nullptr || init->pd->context != context) {
    errno = refuse(EINVAL, "pd is NULL, or of another device context");
    return nullptr;
  }
  if ((init->comp_mask & ~kKnown) != 0) {
    errno = refuse(EOPNOTSUPP, "comp_mask has unsupported bits 0x%x", init->comp_mask & ~kKnown);
    return nullptr;
  }
  Pd* parent = make<Pd>();
  if (parent == nullptr) return nullptr;
  parent->base = {context, init->pd->handle};
  parent->parent_of = reinterpret_cast<Pd*>(init->pd);
  parent->parent_of->users.fetch_add(1, std::memory_order_relaxed);
  parent->td = reinterpret_cast<Td*>(init->td);
  if (parent->td != nullptr) parent->td->users.fetch_add(1, std::memory_order_relaxed);
  return &parent->base;
}

}  // namespace softhca::provider
