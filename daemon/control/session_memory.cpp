// Shared buffers and memory regions.
#include <cerrno>

#include "daemon/control/session.hpp"

namespace softhca::control {
namespace {

// Relaxed ordering and the other optional flags (bits 20 and up) may be ignored by definition.
constexpr std::uint32_t kOptionalAccess = 0x3ff00000;
constexpr std::uint32_t kKnownAccess = memory::kLocalWrite | memory::kRemoteWrite |
                                       memory::kRemoteRead | memory::kRemoteAtomic |
                                       memory::kBindWindow | memory::kZeroBased;
constexpr std::uint64_t kMaxShared = std::uint64_t{1} << 40;

}  // namespace

int Session::alloc_shared(const RequestBody& body, Reply& reply) {
  abi::AllocSharedRequest request;
  if (!body.read(request)) return EINVAL;
  if (request.bytes == 0 || request.bytes % abi::kPageBytes != 0 || request.bytes > kMaxShared)
    return EINVAL;
  const auto created = buffers_.create(request.bytes);
  if (!created) return created.error().code;
  announced_buffer_ = created->handle;
  reply.write(abi::AllocSharedReply{created->handle, 0, created->inode});
  reply.attach(created->fd);
  return 0;
}

int Session::free_shared(const RequestBody& body, Reply&) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  return buffers_.free(request.handle) ? 0 : EINVAL;
}

int Session::add_extent(const abi::MrExtent& extent, memory::RegionSpec& spec) {
  memory::Extent out{.addr = extent.addr, .length = extent.length, .mapped = nullptr};
  if (extent.kind == static_cast<std::uint32_t>(abi::ExtentKind::kShared)) {
    auto buffer = buffers_.acquire(extent.handle);
    if (buffer == nullptr) return EINVAL;
    out.mapped = buffer->at(extent.offset, extent.length);
    if (out.mapped == nullptr) return EINVAL;
    buffer->prefault(extent.offset, extent.length);
    spec.buffers.push_back(std::move(buffer));
  } else if (extent.kind != static_cast<std::uint32_t>(abi::ExtentKind::kProcess)) {
    return EINVAL;
  }
  spec.extents.push_back(out);
  return 0;
}

int Session::register_mr(const RequestBody& body, Reply& reply) {
  abi::RegisterMrRequest request;
  if (!body.read(request, true) || request.extents > abi::kMaxMrExtents) return EINVAL;
  std::vector<abi::MrExtent> extents;
  if (!body.read_tail<abi::RegisterMrRequest>(extents, request.extents)) return EINVAL;
  Pd* pd = pds_.find(request.pd);
  if (pd == nullptr) return EINVAL;
  if ((request.access & ~(kKnownAccess | kOptionalAccess)) != 0) return EOPNOTSUPP;
  if (mrs_.full()) return ENOMEM;

  memory::RegionSpec spec;
  spec.tenant = tenant_.id;
  spec.session = engine_session_->id;
  spec.pd = pd->id;
  spec.access = request.access & kKnownAccess;
  spec.addr = request.addr;
  spec.length = request.length;
  spec.iova = (request.access & memory::kZeroBased) != 0 ? 0 : request.iova;
  spec.process = process_;
  for (const abi::MrExtent& extent : extents)
    if (const int error = add_extent(extent, spec)) return error;
  auto region = memory::Region::make(std::move(spec));
  if (!region) return region.error().code;

  std::uint32_t key = 0;
  int error = 0;
  adapter_.worker.run([&](engine::Engine& engine) {
    const auto inserted = engine.keys().insert(std::move(*region));
    if (inserted) {
      key = (*inserted)->key();
      tenant_.counters.memory_regions.add();
      tenant_.counters.registered_bytes.add(request.length);
    } else {
      error = inserted.error().code;
    }
  });
  if (error != 0) return error;
  ++pd->users;
  auto mr = std::make_unique<Mr>(Mr{.key = key, .pd = request.pd, .length = request.length});
  reply.write(abi::RegisterMrReply{mrs_.add(std::move(mr)), key, key, 0});
  return 0;
}

int Session::deregister_mr(const RequestBody& body, Reply&) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  const auto mr = mrs_.remove(request.handle);
  if (mr == nullptr) return EINVAL;
  adapter_.worker.run([&](engine::Engine& engine) {
    engine.keys().erase(mr->key);
    tenant_.counters.memory_regions.subtract();
    tenant_.counters.registered_bytes.subtract(mr->length);
  });
  --pds_.find(mr->pd)->users;
  buffers_.trim();
  return 0;
}

}  // namespace softhca::control
