// SPDX-License-Identifier: Apache-2.0

// The memory regions, memory windows and address handles of a program.
#include <algorithm>

#include "tests/fuzz/requests/program.hpp"

namespace softhca::fuzz {
namespace {

constexpr std::uint32_t kMostBytes = 4096;

}  // namespace

/// Makes a region of any shape. Nothing: its attributes do not go together.
std::optional<Program::Shaped> Program::shape_region() {
  Shaped shaped;
  Mr& mr = shaped.mr;
  memory::RegionSpec spec;
  spec.tenant = tenant_.id;
  spec.pd = pds_[input_.byte() % 2];
  const std::uint8_t access = input_.byte();
  constexpr std::uint32_t kMostAccess = engine::Process::kFull | memory::kBindWindow;
  spec.access = access < 160
                    ? kMostAccess
                    : (access & 0x3fu) | ((access & 0x40) != 0 ? memory::kFlushGlobal : 0u);
  spec.addr = kIova;
  spec.length = mr.counted = input_.below(kMostBytes);
  spec.iova = (spec.access & memory::kZeroBased) != 0 ? 0 : kIova;
  mr.mapped.resize(std::max<std::size_t>(spec.length, 1));
  // Some extents are shared with the daemon; it reaches the others through the process.
  const std::uint8_t shape = input_.byte();
  const std::uint64_t part = std::max<std::uint64_t>(spec.length / (1 + shape % 3), 1);
  for (std::uint64_t at = 0; at < spec.length; at += part) {
    const bool shared = (shape >> (2 + at / part % 4) & 1) == 0;
    spec.extents.push_back({.addr = kIova + at,
                            .length = std::min(part, spec.length - at),
                            .mapped = shared ? mr.mapped.data() + at : nullptr});
    if (shared || mr.process) continue;
    mr.process = std::make_shared<ProcessBytes>(
        kIova, spec.length,
        ask(engine::ReachMemory{.tenant = tenant_, .by_proxy = (shape & 0x40) != 0}));
  }
  spec.process = mr.process;
  auto region = memory::Region::make(std::move(spec));
  if (!region) return std::nullopt;
  shaped.region = std::move(*region);
  return shaped;
}

void Program::register_mr() {
  begin();
  if (!has_room(mrs_.size())) return;
  auto mr = std::make_unique<Mr>();
  std::unique_ptr<memory::Region> region;
  if (input_.byte() % 8 == 7) {
    region = memory::Region::make_null(tenant_.id, pds_[input_.byte() % 2]);
    mr->is_null = true;
  } else {
    auto shaped = shape_region();
    if (!shaped) return;
    *mr = std::move(shaped->mr);
    region = std::move(shaped->region);
  }
  const auto made =
      ask(engine::RegisterMr{.tenant = tenant_, .region = std::move(region), .bytes = mr->counted});
  if (!made) return;
  mr->key = (*made)->key();
  common_.names.keys.add(mr->key);
  mrs_.push_back(std::move(mr));
}

void Program::reregister_mr() {
  Mr* const mr = any(mrs_);
  if (mr == nullptr || mr->is_null) return;
  auto shaped = shape_region();
  if (!shaped) return;
  shaped->mr.key = mr->key;
  const auto before = ask(engine::ReregisterMr{.tenant = tenant_,
                                               .key = mr->key,
                                               .region = std::move(shaped->region),
                                               .bytes_before = mr->counted,
                                               .bytes = shaped->mr.counted});
  require(before != nullptr, "the key has a region");
  *mr = std::move(shaped->mr);
}

void Program::deregister_mr() {
  Mr* const mr = any(mrs_);
  if (mr == nullptr) return;
  std::unique_ptr<memory::Region> removed;
  ask(engine::DeregisterMr{
      .tenant = tenant_, .key = mr->key, .bytes = mr->counted, .removed = removed});
  require(removed != nullptr, "the key has a region");
  std::erase_if(mrs_, [&](const auto& other) { return other.get() == mr; });
}

/// Memory that the engine reaches through the process becomes slow, absent or busy.
void Program::disturb_memory() {
  Mr* const mr = any(mrs_);
  if (mr == nullptr || !mr->process) return;
  mr->process->busy = input_.byte() % 8;
  mr->process->absent = input_.byte() % 4;
  mr->process->slow = std::chrono::microseconds(input_.byte() % 16);
}

void Program::make_mw() {
  begin();
  if (!has_room(mws_.size())) return;
  const std::uint32_t key =
      ask(engine::AllocMw{.pd = pds_[input_.byte() % 2], .type2 = input_.flag()});
  if (key == 0) return;
  common_.names.keys.add(key);
  mws_.push_back(key);
}

void Program::remove_mw() {
  if (mws_.empty()) return;
  const std::size_t i = input_.byte() % mws_.size();
  ask(engine::DeallocMw{mws_[i]});
  mws_.erase(mws_.begin() + static_cast<std::ptrdiff_t>(i));
}

void Program::make_ah() {
  begin();
  if (!has_room(ahs_.size())) return;
  auto ah = std::make_unique<engine::AddressHandle>();
  const auto path = any_path(nullptr);
  if (!path) return;
  ah->route.path = *path;
  ah->session = session_.get();
  ah->pd = pds_[input_.byte() % 2];
  const std::uint32_t handle = ask(engine::AddAh{*ah});
  require(!ask(engine::RestoreAh{*ah, handle}), "its slot is in use");
  common_.names.address_handles.add(handle);
  ahs_.emplace_back(handle, std::move(ah));
}

void Program::remove_ah() {
  if (ahs_.empty()) return;
  const std::size_t i = input_.byte() % ahs_.size();
  ask(engine::RemoveAh{ahs_[i].first});
  ahs_.erase(ahs_.begin() + static_cast<std::ptrdiff_t>(i));
}

void Program::end_memory(unsigned steps) {
  for (const std::uint32_t key : mws_) ask(engine::DeallocMw{key});
  mws_.clear();
  common_.bench.poll(steps);
  std::vector<std::unique_ptr<memory::Region>> removed(mrs_.size());
  for (std::size_t i = 0; i < mrs_.size(); ++i)
    ask(engine::DeregisterMr{
        .tenant = tenant_, .key = mrs_[i]->key, .bytes = mrs_[i]->counted, .removed = removed[i]});
  removed.clear();
  mrs_.clear();
  common_.bench.poll(steps);
}

}  // namespace softhca::fuzz
