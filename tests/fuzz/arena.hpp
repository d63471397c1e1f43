// SPDX-License-Identifier: Apache-2.0

// Memory of a process, of which parts are registered, and the knowledge which bytes others have
// been allowed to write: no other byte may ever change.
#pragma once

#include <vector>

#include "tests/fuzz/input.hpp"
#include "tests/unit/engine/fixture/process.hpp"

namespace softhca::fuzz {

class Arena {
 public:
  static constexpr std::size_t kBytes = 8192;
  /// How keys refer to the first byte: not its address, which differs from run to run.
  static constexpr std::uint64_t kIova = 0x10000;

  /// A registered part.
  struct Part {
    std::size_t offset = 0;
    std::size_t bytes = 0;
    std::uint32_t access = 0;  ///< memory::Access bits
    std::uint32_t key = 0;
  };

  explicit Arena(engine::Process& process) : process_(process), memory_(kBytes), open_(kBytes) {
    for (std::size_t i = 0; i < kBytes; ++i) memory_[i] = pattern(i);
  }

  /// The whole process's parts: everything allowed, reading alone, local access alone, with bytes
  /// in between that are in none.
  void add_parts() {
    add(1024, 3072, engine::Process::kFull);
    add(4608, 1024, memory::kRemoteRead);
    add(6144, 1536, memory::kLocalWrite);
  }
  const std::vector<Part>& parts() const { return parts_; }
  const Part* find(std::uint32_t key) const {
    for (const Part& part : parts_)
      if (part.key == key) return &part;
    return nullptr;
  }

  /// From now on what lies in [addr, addr + bytes) may change, as far as that key allows it with
  /// one of the bits of `access`.
  void open(std::uint32_t key, std::uint64_t addr, std::uint64_t bytes, std::uint32_t access) {
    const Part* part = find(key);
    if (part == nullptr || (part->access & access) == 0) return;
    for (std::size_t i = part->offset; i < part->offset + part->bytes; ++i)
      if (kIova + i - addr < bytes) open_[i] = true;
  }
  void check() const {
    for (std::size_t i = 0; i < kBytes; ++i)
      require(open_[i] || memory_[i] == pattern(i), "memory changed that no request may write");
  }

 private:
  static std::byte pattern(std::size_t i) {
    return static_cast<std::byte>((i * 131 + i / 251 + 7) & 0xff);
  }

  void add(std::size_t offset, std::size_t bytes, std::uint32_t access) {
    memory::RegionSpec spec;
    spec.tenant = process_.tenant.id;
    spec.pd = process_.pd;
    spec.access = access;
    spec.addr = spec.iova = kIova + offset;
    spec.length = bytes;
    spec.extents = {{spec.addr, bytes, memory_.data() + offset}};
    auto region = memory::Region::make(std::move(spec));
    require(static_cast<bool>(region), "a region can be made");
    const auto inserted = process_.adapter.engine.keys().insert(std::move(*region));
    require(static_cast<bool>(inserted), "a region can be registered");
    parts_.push_back({offset, bytes, access, (*inserted)->key()});
  }

  engine::Process& process_;
  std::vector<std::byte> memory_;
  std::vector<bool> open_;
  std::vector<Part> parts_;
};

}  // namespace softhca::fuzz
