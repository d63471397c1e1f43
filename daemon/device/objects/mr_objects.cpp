// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/objects/mr_objects.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/live_records/record_body.hpp"

namespace softhca::control {
namespace {

// Relaxed ordering and the other optional flags (bits 20 and up) may be ignored by definition.
constexpr std::uint32_t kOptionalAccess = 0x3ff00000;
constexpr std::uint32_t kHugePages = 1 << 7;  // IBV_ACCESS_HUGETLB: makes no difference here
constexpr std::uint32_t kKnownAccess =
    memory::kLocalWrite | memory::kRemoteWrite | memory::kRemoteRead | memory::kRemoteAtomic |
    memory::kBindWindow | memory::kZeroBased | memory::kOnDemand | memory::kFlushGlobal;
constexpr std::uint32_t kPermittedAccess = kKnownAccess | kOptionalAccess | kHugePages;
// Values of enum ibv_rereg_mr_flags.
constexpr std::uint32_t kChangeTranslation = 1 << 0;
constexpr std::uint32_t kChangePd = 1 << 1;
constexpr std::uint32_t kChangeAccess = 1 << 2;
constexpr std::uint64_t kAllAddresses = ~std::uint64_t{0};  // length of a region of all addresses

bool is_shared(const abi::MrExtent& extent) {
  return extent.kind == static_cast<std::uint32_t>(abi::ExtentKind::kShared);
}

/// Returns the bytes that a region counts as registered. A region of all addresses counts none, as
/// its length does not tell how much is used.
std::uint64_t registered_bytes(const memory::RegionSpec& spec) {
  const bool implicit = (spec.access & memory::kOnDemand) != 0 && spec.addr == 0 &&
                        spec.length == kAllAddresses && spec.buffers.empty();
  return implicit ? 0 : spec.length;
}

/// Stands for the memory of a process that has gone.
class GoneMemory final : public memory::ProcessMemory {
 public:
  Verdict read(std::span<iovec>, std::span<iovec>) override { return Verdict::kLocalProtection; }
  Verdict write(std::span<iovec>, std::span<iovec>) override { return Verdict::kLocalProtection; }
};

// Bytes mapped at a time: 2 ms if the process has filled all of them.
constexpr std::uint64_t kMapped = 8 << 20;

}  // namespace

bool MrObjects::end(const Turn& turn) {
  registration_.reset();
  if (!pds_.leave_file()) return true;
  struct Ending {
    std::unique_ptr<MrObject> mr;
    std::unique_ptr<memory::Region> region;  ///< this thread unmaps it
  };
  return context_.remove_all(
      turn,
      [&] {
        auto ending = std::make_unique<Ending>();
        ending->mr = pds_.regions().remove_last();
        return ending->mr != nullptr ? std::move(ending) : nullptr;
      },
      [&](Ending& ending) { return removal(*ending.mr, ending.region); },
      [](std::unique_ptr<Ending>) {});
}

/// Returns the shared memory that an extent names; null: it is unknown. In a virtual machine it is
/// the part of the region that programs register. There, the offset becomes one in that part.
std::shared_ptr<memory::SharedBuffer> MrObjects::buffer_of(abi::MrExtent& extent) const {
  const auto& machine = context_.machine();
  if (machine == nullptr) return buffers_.acquire(extent.handle);
  extent.offset += std::uint64_t{extent.handle} * abi::kPageBytes - machine->shared_place().offset;
  return machine->shared();
}

/// Reads the extents of a request. Returns false if the request is malformed.
template <class Head>
bool MrObjects::read_extents(const RequestBody& body, std::uint32_t count, Extents& extents) {
  if (count > abi::kMaxMrExtents || !body.read_tail<Head>(extents.all, count)) return false;
  for (abi::MrExtent& extent : extents.all)
    extents.buffers.push_back(is_shared(extent) ? buffer_of(extent) : nullptr);
  return true;
}

/// Adds extents to `spec`. Returns 0 or an errno value.
int MrObjects::add(const Extents& extents, memory::RegionSpec& spec) const {
  for (std::size_t i = 0; i < extents.all.size(); ++i) {
    const abi::MrExtent& extent = extents.all[i];
    const auto& buffer = extents.buffers[i];
    memory::Extent out{.addr = extent.addr, .length = extent.length, .mapped = nullptr};
    if (is_shared(extent)) {
      if (buffer == nullptr) return ESTALE;
      out.mapped = buffer->at(extent.offset, extent.length);
      if (out.mapped == nullptr)
        return context_.refuse(EINVAL, "an extent exceeds its shared memory");
      spec.buffers.push_back(buffer);
    } else if (extent.kind != static_cast<std::uint32_t>(abi::ExtentKind::kProcess)) {
      return context_.refuse(EINVAL, "unknown kind %u of extent", extent.kind);
    } else if (process_ == nullptr) {
      return context_.refuse(EOPNOTSUPP, "the process has not offered the memory");
    } else {
      spec.process = process_;
    }
    spec.extents.push_back(out);
  }
  return 0;
}

/// Charges the extents as memory of queues. Returns false if too little is free.
bool MrObjects::charge_extents(std::size_t count, configuration::Charge& charge) const {
  constexpr std::size_t kEach = sizeof(memory::Extent) + sizeof(std::shared_ptr<void>);
  if (count <= 1) return true;
  charge = context_.take(configuration::Kind::kQueueBytes, (count - 1) * kEach);
  return static_cast<bool>(charge);
}

/// Maps some pages. Returns true if all pages that the process has filled are mapped.
bool MrObjects::map_some(Registration& at) const {
  for (std::uint64_t left = kMapped; at.extent < at.extents.all.size(); ++at.extent) {
    const auto& buffer = at.extents.buffers[at.extent];
    if (buffer == nullptr) continue;
    if (!buffer->is_sealed()) return false;
    const abi::MrExtent& extent = at.extents.all[at.extent];
    const std::uint64_t length = std::min(left, extent.length - at.offset);
    buffer->map_present(extent.offset + at.offset, length);
    left -= length;
    at.offset += length;
    if (at.offset < extent.length) return false;
    at.offset = 0;
  }
  return true;
}

std::pair<std::vector<DescriptorToSeal>, std::vector<std::shared_ptr<void>>> MrObjects::to_seal() {
  std::pair<std::vector<DescriptorToSeal>, std::vector<std::shared_ptr<void>>> out;
  if (!registration_) return out;
  for (const auto& buffer : registration_->extents.buffers) {
    if (buffer == nullptr || buffer->is_sealed()) continue;
    auto [fd, account] = buffer->to_seal();
    out.first.push_back(std::move(fd));
    out.second.push_back(std::move(account));
  }
  return out;
}

/// Returns 0 or an errno value.
int MrObjects::check_access(std::uint32_t access) const {
  const std::uint32_t unknown = access & ~kPermittedAccess;
  return unknown == 0 ? 0 : context_.refuse(EOPNOTSUPP, "access has unknown flags 0x%x", unknown);
}

/// Checks and charges a registration. Error codes are errno values.
Expected<MrObjects::Registration> MrObjects::begin(const abi::RegisterMrRequest& request,
                                                   Extents extents) {
  const auto refused = [](int error) { return Error{{}, error}; };
  PdObject* pd = pds_.find(request.pd);
  if (pd == nullptr) return refused(context_.refuse_unknown("protection domain"));
  if (const int error = check_access(request.access)) return refused(error);

  memory::RegionSpec spec;
  spec.tenant = context_.tenant().id;
  spec.pd = pd->id;
  spec.access = request.access & kKnownAccess;
  spec.addr = request.addr;
  spec.length = request.length;
  spec.iova = (request.access & memory::kZeroBased) != 0 ? 0 : request.iova;
  if (const int error = add(extents, spec)) return refused(error);
  const std::uint64_t counted = registered_bytes(spec);
  auto region = memory::Region::make(std::move(spec));
  if (!region) return region.error();

  auto mr = std::make_unique<MrObject>();
  mr->pd = PdUse(*pd, PdUser::kMemoryRegion);
  mr->charge = context_.take(configuration::Kind::kMemoryRegions);
  if (!mr->charge) return refused(ENOMEM);
  mr->bytes = context_.take(configuration::Kind::kRegisteredBytes, counted);
  if (!mr->bytes || !charge_extents(extents.all.size(), mr->extents)) return refused(ENOMEM);
  return Registration{
      .extents = std::move(extents), .region = std::move(*region), .mr = std::move(mr)};
}

/// Begins the registration, or continues it. Returns 0 with the whole registration in `done`,
/// kUnfinished, or an errno value. `count`: number of extents in the request.
template <class Request>
int MrObjects::advance(const RequestBody& body, const Request& request, std::uint32_t count,
                       Registration& done) {
  if (!registration_) {
    Extents extents;
    if (!read_extents<Request>(body, count, extents)) return EINVAL;
    auto begun = begin(request, std::move(extents));
    if (!begun) return context_.refuse(begun.error());
    registration_ = std::move(*begun);
  }
  if (!map_some(*registration_)) return kUnfinished;
  done = std::move(*registration_);
  registration_.reset();
  return 0;
}

int MrObjects::register_mr(const RequestBody& body, Reply& reply) {
  abi::RegisterMrRequest request;
  if (!body.read(request, true)) return EINVAL;
  Registration done;
  if (const int error = advance(body, request, request.extents, done)) return error;
  return install(std::move(done.region), std::move(done.mr), request.pd, done.extents, reply);
}

int MrObjects::alloc_null_mr(const RequestBody& body, Reply& reply) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  PdObject* pd = pds_.find(request.handle);
  if (pd == nullptr) return context_.refuse_unknown("protection domain");
  auto mr = std::make_unique<MrObject>();
  mr->pd = PdUse(*pd, PdUser::kMemoryRegion);
  mr->charge = context_.take(configuration::Kind::kMemoryRegions);
  if (!mr->charge) return ENOMEM;
  return install(memory::Region::make_null(context_.tenant().id, pd->id), std::move(mr),
                 request.handle, {}, reply);
}

/// Installs a region. Returns 0 with a reply, or an errno value. REQUIRES: `mr` has the domain and
/// the charges.
int MrObjects::install(std::unique_ptr<memory::Region> region, std::unique_ptr<MrObject> mr,
                       std::uint32_t pd, const Extents& extents, Reply& reply) {
  const auto registered = context_.on_engine(engine::RegisterMr{
      .tenant = context_.tenant(), .region = std::move(region), .bytes = mr->bytes.amount()});
  if (!registered) return context_.refuse(registered.error());
  mr->region = *registered;
  mr->key = mr->region->key();
  MrObject& made = *mr;
  made.pd_handle = pd;
  made.handle = pds_.regions().add(std::move(mr));
  keep_extents(made, extents);
  write(made);
  reply.write(abi::RegisterMrReply{made.handle, made.key, made.rkey(), 0});
  return 0;
}

/// Notes the memory that a request named, for the record of the region.
void MrObjects::keep_extents(MrObject& mr, const Extents& extents) const {
  if (context_.keeping() == nullptr) return;
  mr.offers = context_.record_key();
  mr.kept_extents.clear();
  for (std::size_t i = 0; i < extents.all.size(); ++i) {
    const abi::MrExtent& extent = extents.all[i];
    const auto& buffer = extents.buffers[i];
    mr.kept_extents.push_back({.addr = extent.addr,
                               .length = extent.length,
                               .offset = extent.offset,
                               .buffer = buffer != nullptr ? buffer->kept() : 0});
  }
}

/// Writes the record of a region.
void MrObjects::write(MrObject& mr) const {
  if (context_.keeping() == nullptr) return;
  const memory::RegionSpec& spec = mr.region->spec();
  records::BodyWriter body;
  body.add(record::MemoryRegion{.key = context_.record_key(),
                                .offers = mr.offers,
                                .file = pds_.file()->number,
                                .handle = mr.handle,
                                .pd = mr.pd_handle,
                                .region_key = mr.key,
                                .access = spec.access,
                                .is_null = mr.region->is_null(),
                                .addr = spec.addr,
                                .length = spec.length,
                                .iova = spec.iova,
                                .counted = mr.bytes.amount(),
                                .extents = mr.kept_extents.size()});
  for (const record::RegionExtent& extent : mr.kept_extents) body.add(extent);
  if (mr.record)
    mr.record.replace(body.bytes());
  else
    mr.record = context_.write(records::Kind::kMemoryRegion, body.bytes());
}

bool MrObjects::restore(const record::MemoryRegion& kept,
                        std::span<const record::RegionExtent> extents, const Earlier& earlier,
                        records::Record record) {
  PdObject* pd = pds_.find(kept.pd);
  if (pd == nullptr || !pds_.regions().has_place(kept.handle)) return false;
  memory::RegionSpec spec{.tenant = context_.tenant().id,
                          .pd = pd->id,
                          .access = kept.access,
                          .addr = kept.addr,
                          .length = kept.length,
                          .iova = kept.iova,
                          .extents = {},
                          .process = nullptr,
                          .buffers = {}};
  for (const record::RegionExtent& extent : extents) {
    memory::Extent out{.addr = extent.addr, .length = extent.length, .mapped = nullptr};
    if (extent.buffer == 0) {
      if (spec.process == nullptr) spec.process = earlier.memory(kept.offers);
      if (spec.process == nullptr) spec.process = std::make_shared<GoneMemory>();
    } else {
      auto buffer = earlier.buffer(extent.buffer);
      if (buffer != nullptr) out.mapped = buffer->at(extent.offset, extent.length);
      if (out.mapped == nullptr) return false;
      spec.buffers.push_back(std::move(buffer));
    }
    spec.extents.push_back(out);
  }
  auto region = kept.is_null != 0 ? Expected(memory::Region::make_null(spec.tenant, spec.pd))
                                  : memory::Region::make(std::move(spec));
  if (!region) return false;
  auto mr = std::make_unique<MrObject>();
  mr->pd = PdUse(*pd, PdUser::kMemoryRegion);
  mr->charge = context_.take(configuration::Kind::kMemoryRegions);
  if (kept.is_null == 0)
    mr->bytes = context_.take(configuration::Kind::kRegisteredBytes, kept.counted);
  charge_extents(extents.size(), mr->extents);
  auto registered = context_.on_engine(engine::RegisterMr{.tenant = context_.tenant(),
                                                          .region = std::move(*region),
                                                          .bytes = mr->bytes.amount(),
                                                          .key = kept.region_key});
  if (!registered) return false;
  mr->region = *registered;
  mr->key = kept.region_key;
  mr->handle = kept.handle;
  mr->pd_handle = kept.pd;
  mr->offers = kept.offers;
  mr->kept_extents.assign(extents.begin(), extents.end());
  mr->record = std::move(record);
  return pds_.regions().add(std::move(mr), kept.handle) != nullptr;
}

/// Applies the changes of `request` to a region. Returns 0 or an errno value.
int MrObjects::change_spec(const abi::ReregisterMrRequest& request, const Extents& extents,
                           memory::RegionSpec& spec) const {
  if ((request.flags & kChangeAccess) != 0) {
    if (const int error = check_access(request.region.access)) return error;
    spec.access = request.region.access & kKnownAccess;
  }
  if ((request.flags & kChangePd) != 0) {
    const PdObject* pd = pds_.find(request.region.pd);
    if (pd == nullptr) return context_.refuse_unknown("protection domain");
    spec.pd = pd->id;
  }
  if ((request.flags & kChangeTranslation) == 0) return 0;
  spec.addr = request.region.addr;
  spec.length = request.region.length;
  spec.iova = (spec.access & memory::kZeroBased) != 0 ? 0 : request.region.iova;
  spec.extents.clear();
  spec.buffers.clear();
  spec.process = nullptr;  // another process may have registered it
  return add(extents, spec);
}

Expected<MrObjects::Registration> MrObjects::begin(const abi::ReregisterMrRequest& request,
                                                   Extents extents) {
  const auto refused = [](int error) { return Error{{}, error}; };
  MrObject* known = pds_.regions().find(request.handle);
  constexpr std::uint32_t kKnown = kChangeTranslation | kChangePd | kChangeAccess;
  if (known == nullptr) return refused(context_.refuse_unknown("memory region"));
  if (known->region->is_null())
    return refused(context_.refuse(EINVAL, "a null region cannot be changed"));
  if ((request.flags & ~kKnown) != 0)
    return refused(context_.refuse(EINVAL, "unknown flags 0x%x", request.flags & ~kKnown));
  const bool moves = (request.flags & kChangeTranslation) != 0;
  if (!moves && !extents.all.empty())
    return refused(context_.refuse(EINVAL, "extents without IBV_REREG_MR_CHANGE_TRANSLATION"));

  memory::RegionSpec spec = known->region->spec();
  if (const int error = change_spec(request, extents, spec)) return refused(error);
  const std::uint64_t counted = registered_bytes(spec);
  auto region = memory::Region::make(std::move(spec));
  if (!region) return region.error();
  auto changed = std::make_unique<MrObject>();
  if (counted != known->bytes.amount()) {
    changed->bytes = context_.take(configuration::Kind::kRegisteredBytes, counted);
    if (!changed->bytes) return refused(ENOMEM);
  }
  if (moves && !charge_extents(extents.all.size(), changed->extents)) return refused(ENOMEM);
  if ((request.flags & kChangePd) != 0)
    changed->pd = PdUse(*pds_.find(request.region.pd), PdUser::kMemoryRegion);
  return Registration{.extents = std::move(extents),
                      .region = std::move(*region),
                      .mr = std::move(changed),
                      .replaces = known->region->serial()};
}

int MrObjects::reregister_mr(const RequestBody& body, Reply& reply) {
  abi::ReregisterMrRequest request;
  if (!body.read(request, true)) return EINVAL;
  Registration done;
  if (const int error = advance(body, request, request.region.extents, done)) return error;
  MrObject* mr = pds_.regions().find(request.handle);
  // Another process with the context may have changed the region first.
  if (mr == nullptr || mr->region->serial() != done.replaces)
    return context_.refuse(EBUSY, "another process has changed the region meanwhile");
  const std::uint64_t counted = registered_bytes(done.region->spec());
  mr->region = done.region.get();
  std::unique_ptr<memory::Region> before =
      context_.on_engine(engine::ReregisterMr{.tenant = context_.tenant(),
                                              .key = mr->key,
                                              .region = std::move(done.region),
                                              .bytes_before = mr->bytes.amount(),
                                              .bytes = counted});
  if (done.mr->bytes) mr->bytes = std::move(done.mr->bytes);
  if ((request.flags & kChangeTranslation) != 0) mr->extents = std::move(done.mr->extents);
  if ((request.flags & kChangePd) != 0) mr->pd = std::move(done.mr->pd);
  before.reset();
  if ((request.flags & kChangePd) != 0) mr->pd_handle = request.region.pd;
  if ((request.flags & kChangeTranslation) != 0) keep_extents(*mr, done.extents);
  write(*mr);
  reply.write(abi::RegisterMrReply{request.handle, mr->key, mr->key, 0});
  return 0;
}

int MrObjects::deregister_mr(const RequestBody& body, Reply&) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  const auto mr = pds_.regions().remove(request.handle);
  if (mr == nullptr) return context_.refuse_unknown("memory region");
  std::unique_ptr<memory::Region> region;
  context_.on_engine(removal(*mr, region));
  region.reset();  // unmaps its memory here, not on the engine's thread
  return 0;
}

/// Returns the request that removes a region. It sets `region` to it. The caller's thread unmaps
/// the memory that only the region keeps mapped.
engine::DeregisterMr MrObjects::removal(const MrObject& mr,
                                        std::unique_ptr<memory::Region>& region) const {
  return {
      .tenant = context_.tenant(), .key = mr.key, .bytes = mr.bytes.amount(), .removed = region};
}

int MrObjects::import_mr(const RequestBody& body, Reply& reply) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  const MrObject* mr = pds_.regions().find(request.handle);
  if (mr == nullptr) return context_.refuse_unknown("memory region");
  const memory::Region& region = *mr->region;
  reply.write(abi::ImportMrReply{.length = region.length(),
                                 .iova = region.iova(),
                                 .lkey = mr->key,
                                 .rkey = mr->rkey(),
                                 .access = region.access(),
                                 .reserved = 0});
  return 0;
}

}  // namespace softhca::control
