// SPDX-License-Identifier: Apache-2.0

// The descriptors and the memory that the keeper holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "daemon/keeper/handover.hpp"

namespace softhca::keeper {

/// The mappings stay until the end of the process.
class KeptTable {
 public:
  static constexpr std::size_t kMost = 1 << 17;  ///< entries

  /// Adds a descriptor, and a mapping of its first `bytes` unless these are 0. Returns 0 with `id`,
  /// or an errno value. EBADF: the descriptor is missing; EINVAL: the file has fewer bytes, or they
  /// are not whole pages; EMFILE: this process has nearly no descriptors left; ENOSPC: the table is
  /// full.
  int add(UniqueFd fd, std::uint64_t bytes, std::uint32_t role, std::uint64_t& id);
  /// Returns 0, or ENOENT.
  int close_descriptor(std::uint64_t id);
  int drop(std::uint64_t id);

  std::vector<KeptEntry> entries() const;

 private:
  struct Kept {
    UniqueFd fd;
    KeptEntry entry;
  };
  std::map<std::uint64_t, Kept> kept_;  ///< by KeptEntry::id
  std::uint64_t next_ = 1;
};

}  // namespace softhca::keeper
