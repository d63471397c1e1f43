// SPDX-License-Identifier: Apache-2.0

// Memory regions.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <span>

#include "libverbs-provider/context.hpp"
#include "libverbs-provider/explain.hpp"
#include "libverbs-provider/heap.hpp"
#include "libverbs-provider/operations.hpp"
#include "libverbs-provider/verbs/memory_region.hpp"
#include "libverbs-provider/verbs/unshared_hint.hpp"

namespace softhca::provider {

void OnDemandRegions::add(Mr& mr) {
  Guard guard(lock_);
  mr.next_on_demand = first_;
  first_ = &mr;
}

void OnDemandRegions::remove(const Mr& mr) {
  Guard guard(lock_);
  for (Mr** at = &first_; *at != nullptr; at = &(*at)->next_on_demand) {
    if (*at != &mr) continue;
    *at = mr.next_on_demand;
    return;
  }
}

bool OnDemandRegions::find(std::uint32_t lkey, Found& found) {
  Guard guard(lock_);
  for (const Mr* mr = first_; mr != nullptr; mr = mr->next_on_demand) {
    if (mr->base.mr.lkey != lkey) continue;
    found = {mr->base.mr, mr->iova, mr->base.access, mr->is_imported()};
    return true;
  }
  return false;
}

namespace {

bool is_unshared(const abi::MrExtent& extent) {
  return extent.kind == static_cast<std::uint32_t>(abi::ExtentKind::kProcess);
}

/// Sends the request with its extents. Returns 0 or an errno value.
template <class Request>
int send_registration(Context& context, abi::Operation operation, const Request& request,
                      std::span<const abi::MrExtent> extents, abi::RegisterMrReply& reply) {
  const iovec body[] = {{const_cast<Request*>(&request), sizeof request},
                        {const_cast<abi::MrExtent*>(extents.data()), extents.size_bytes()}};
  if (std::any_of(extents.begin(), extents.end(), is_unshared))
    if (const int error = context.memory_offer.make(context.control)) return error;
  ReceivedFds none;
  return context.control.call(operation, body, std::as_writable_bytes(std::span{&reply, 1}), none);
}

/// Reverts the MADV_DONTFORK that libibverbs sets after ibv_fork_init(), because children keep
/// copies of registered memory. Older versions set it even where they know that it is not needed;
/// all versions set it in a program without the preload library. They set it on whole pages, of the
/// memory's page size.
void keep_in_children(std::uint64_t addr, std::uint64_t length) {
  // Constant: libibverbs refuses ibv_fork_init() from the first registration on.
  static std::atomic<int> status{-1};
  int known = status.load(std::memory_order_relaxed);
  if (known < 0) status = known = ibv_is_fork_initialized();
  if (known == IBV_FORK_DISABLED) return;
  for (const std::uint64_t page :
       {std::uint64_t{4} << 10, std::uint64_t{2} << 20, std::uint64_t{1} << 30}) {
    const std::uint64_t begin = addr / page * page;
    const std::uint64_t end = (addr + length + page - 1) / page * page;
    if (::madvise(std::bit_cast<void*>(begin), end - begin, MADV_DOFORK) == 0) return;
    if (errno != EINVAL) return;  // EINVAL: another page size
  }
}

/// Explains why memory cannot be shared, nor reached. Returns `error`.
int refuse_memory(int error, std::uint64_t addr, std::uint64_t length, bool writable) {
  if (error != EFAULT) return error;
  return refuse(error, "%llu bytes at 0x%llx are not all mapped%s",
                static_cast<unsigned long long>(length), static_cast<unsigned long long>(addr),
                writable ? ", or not writable, as the access flags need" : "");
}

/// Shares the memory of the region for `access`, and registers it by `send(extents)`. Both return 0
/// or an errno value. Under a memory shortage of the tenant, the daemon may have given up memory
/// kept from earlier registrations; then this shares it anew.
template <class Send>
int share(Context& context, std::uint64_t addr, std::uint64_t length, int access,
          ExtentList& extents, Send send) {
  keep_in_children(addr, length);
  const bool writable = (access & kWritableAccess) != 0;
  // One repetition would do, if other threads did not register the same memory during the shortage.
  constexpr int kAttempts = 8;
  int error = ESTALE;
  for (int i = 0; error == ESTALE && i < kAttempts; ++i) {
    if (const int failed = context.memory->prepare({addr, length, writable}, extents))
      return refuse_memory(failed, addr, length, writable);
    error = send(extents.all());
    if (error == ESTALE)
      context.memory->forget(extents.all());
    else if (error != 0)
      context.memory->release(extents.all());
    if (error == EOPNOTSUPP && !context.memory_offer.is_made()) {
      if (const int shortage = context.shortage.load(std::memory_order_relaxed))
        return refuse(shortage, "the process has no free descriptor, by which memory is shared");
      say_unshared(addr, length, extents.all(), context.memory_offer.open_error());
    }
  }
  if (error != ESTALE) return error;
  return refuse(ENOMEM, "the tenant is short of shared memory: the daemon gives it up at once");
}

/// Checks that the kernel accepts a range: it has at least one byte and does not wrap around.
/// Returns 0 or an errno value.
int check_range(std::uintptr_t begin, std::size_t length) {
  if (length == 0) return refuse(EINVAL, "length is 0");
  if (begin + length >= begin) return 0;
  return refuse(EINVAL, "%zu bytes at 0x%zx exceed the address space", length,
                static_cast<std::size_t>(begin));
}

/// True for a region on demand, if the daemon can reach the process. Such a region is of addresses,
/// whatever memory they have when it is used.
bool is_of_addresses(const Context& context, int access) {
  return (access & IBV_ACCESS_ON_DEMAND) != 0 &&
         (context.limits.capabilities & abi::kCanReachProcess) != 0;
}

/// True for a region of all addresses (implicit on-demand paging).
bool is_implicit(const abi::RegisterMrRequest& request) {
  return (request.access & IBV_ACCESS_ON_DEMAND) != 0 && request.addr == 0 &&
         request.length == SIZE_MAX;
}

/// Checks a region of all addresses. Returns 0 or an errno value.
int check_implicit(const Context& context, const abi::RegisterMrRequest& request) {
  if (request.iova != 0) return refuse(EINVAL, "a region of all addresses with iova not 0");
  if (is_of_addresses(context, static_cast<int>(request.access))) return 0;
  say_implicit();
  return EOPNOTSUPP;
}

/// Copies the extents for the region. False: out of memory.
bool keep(const ExtentList& extents, HeapArray<abi::MrExtent>& kept) {
  if (!kept.allocate(extents.all().size())) return false;
  std::copy(extents.all().begin(), extents.all().end(), kept.data());
  return true;
}

/// As share(), but shares no memory, and does not even inspect it.
template <class Send>
int send_addresses(std::uint64_t addr, std::uint64_t length, Send send) {
  const abi::MrExtent whole{addr, length, 0, 0,
                            static_cast<std::uint32_t>(abi::ExtentKind::kProcess)};
  return send({&whole, 1});
}

/// Shares the memory, if necessary, and registers it. Returns 0 or an errno value.
int create(Context& context, Mr& mr, abi::RegisterMrRequest& request) {
  const Owned<ExtentList> list(make<ExtentList>());  // too large for a small stack
  if (list == nullptr) return ENOMEM;
  ExtentList& extents = *list;
  abi::RegisterMrReply reply{};
  const auto send = [&](std::span<const abi::MrExtent> all) {
    request.extents = static_cast<std::uint32_t>(all.size());
    if (!keep(extents, mr.extents)) return ENOMEM;
    return send_registration(context, abi::Operation::kRegisterMr, request, all, reply);
  };
  const int error = is_of_addresses(context, static_cast<int>(request.access))
                        ? send_addresses(request.addr, request.length, send)
                        : share(context, request.addr, request.length,
                                static_cast<int>(request.access), extents, send);
  if (error != 0) return error;
  mr.extent_count = extents.all().size();
  mr.base.mr.handle = reply.handle;
  mr.base.mr.lkey = reply.lkey;
  mr.base.mr.rkey = reply.rkey;
  return 0;
}

/// Prepares the memory of a region that has been read-only for writes. Returns 0 or an errno value.
int check_new_access(Context& context, const Mr& mr, int access, ExtentList& extents) {
  const ibv_mr& base = mr.base.mr;
  const bool now = (access & kWritableAccess) != 0 && (mr.base.access & kWritableAccess) == 0;
  if (!now || mr.is_imported() || is_of_addresses(context, access)) return 0;
  const int error = context.memory->prepare(
      {reinterpret_cast<std::uintptr_t>(base.addr), base.length, true}, extents);
  if (error == 0) context.memory->release(extents.all());
  return refuse_memory(error, reinterpret_cast<std::uintptr_t>(base.addr), base.length, true);
}

}  // namespace

ibv_mr* reg_mr(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova, int access) {
  const auto begin = reinterpret_cast<std::uintptr_t>(addr);
  if (const int error = check_range(begin, length)) {
    errno = error;
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
  Context& context = *to_context(pd->context);
  int error = is_implicit(request) ? check_implicit(context, request) : 0;
  if (error == 0) error = create(context, *mr, request);
  if (error != 0) {
    errno = error;
    return nullptr;
  }
  ibv_mr& base = mr->base.mr;
  base.context = pd->context;
  base.pd = pd;
  base.addr = addr;
  base.length = length;
  mr->base.access = access;
  mr->iova = request.iova;
  if (mr->on_demand()) context.on_demand.add(*mr);
  return &mr.release()->base.mr;
}

ibv_mr* alloc_null_mr(ibv_pd* pd) {
  Owned<Mr> mr(make<Mr>());
  if (mr == nullptr) return nullptr;
  abi::RegisterMrReply reply{};
  ControlChannel& control = to_context(pd->context)->control;
  const abi::HandleBody request{pd->handle, 0};
  if (const int error = control.call(abi::Operation::kAllocNullMr, request, reply)) {
    errno = error;
    return nullptr;
  }
  // The region contains all addresses.
  mr->base.mr = {pd->context, pd, nullptr, SIZE_MAX, reply.handle, reply.lkey, reply.rkey};
  mr->base.type = abi34::kNullMr;
  return &mr.release()->base.mr;
}

/// On success, the library sets domain, address and length.
int rereg_mr(abi34::VerbsMr* verbs_mr, int flags, ibv_pd* pd, void* addr, std::size_t length,
             int access) {
  Mr& mr = *reinterpret_cast<Mr*>(verbs_mr);
  Context& context = *to_context(verbs_mr->mr.context);
  const auto begin = reinterpret_cast<std::uintptr_t>(addr);
  const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  if (moves)
    if (const int error = check_range(begin, length)) return error;
  const int new_access = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0 ? access : verbs_mr->access;
  const bool turns = ((new_access ^ verbs_mr->access) & IBV_ACCESS_ON_DEMAND) != 0;
  // The request would need the extents of the memory.
  if (turns && !moves)
    return refuse(EOPNOTSUPP, "IBV_ACCESS_ON_DEMAND changes only with the translation");
  abi::ReregisterMrRequest request{};
  request.handle = verbs_mr->mr.handle;
  request.flags = static_cast<std::uint32_t>(flags);
  request.region = {begin, length, begin, static_cast<std::uint32_t>(access), 0, 0, 0};
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) request.region.pd = pd->handle;
  const Owned<ExtentList> list(make<ExtentList>());
  if (list == nullptr) return ENOMEM;
  ExtentList& extents = *list;
  HeapArray<abi::MrExtent> kept;
  abi::RegisterMrReply reply{};
  if (!moves)
    if (const int error = check_new_access(context, mr, new_access, extents)) return error;
  const auto send = [&](std::span<const abi::MrExtent> all) {
    request.region.extents = static_cast<std::uint32_t>(all.size());
    if (!keep(extents, kept)) return ENOMEM;
    return send_registration(context, abi::Operation::kReregisterMr, request, all, reply);
  };
  const int error = !moves ? send({})
                    : is_of_addresses(context, new_access)
                        ? send_addresses(begin, length, send)
                        : share(context, begin, length, new_access, extents, send);
  if (error != 0) return error;
  context.on_demand.remove(mr);
  verbs_mr->access = new_access;
  if (moves) mr.iova = (new_access & IBV_ACCESS_ZERO_BASED) != 0 ? 0 : begin;
  if (mr.on_demand()) context.on_demand.add(mr);
  if (!moves) return 0;
  context.memory->release({mr.extents.data(), mr.extent_count});
  mr.extents = std::move(kept);
  mr.extent_count = extents.all().size();
  return 0;
}

int dereg_mr(abi34::VerbsMr* verbs_mr) {
  Context& context = *to_context(verbs_mr->mr.context);
  if (const int error = context.control.destroy(abi::Operation::kDeregisterMr, verbs_mr->mr.handle))
    return error;
  unimport_mr(&verbs_mr->mr);
  return 0;
}

ibv_mr* import_mr(ibv_pd* pd, std::uint32_t handle) {
  Owned<Mr> mr(make<Mr>());
  if (mr == nullptr) return nullptr;
  Context& context = *to_context(pd->context);
  abi::ImportMrReply reply{};
  if (const int error =
          context.control.call(abi::Operation::kImportMr, abi::HandleBody{handle, 0}, reply)) {
    errno = error;
    return nullptr;
  }
  // The address is that of another process.
  mr->base.mr = {pd->context, pd, nullptr, reply.length, handle, reply.lkey, reply.rkey};
  mr->base.type = abi34::kImportedMr;
  mr->base.access = static_cast<int>(reply.access);
  mr->iova = reply.iova;
  if (mr->on_demand()) context.on_demand.add(*mr);
  return &mr.release()->base.mr;
}

/// Releases an imported region, which continues to exist for others. The process that made it may
/// call this, too.
void unimport_mr(ibv_mr* ibv_mr) {
  Mr* mr = reinterpret_cast<Mr*>(ibv_mr);
  Context& context = *to_context(ibv_mr->context);
  context.on_demand.remove(*mr);
  context.memory->release({mr->extents.data(), mr->extent_count});
  dispose(mr);
}

}  // namespace softhca::provider
