// SPDX-License-Identifier: Apache-2.0

// What outlives an adapter: descriptors, and memory with its mappings. The keeper holds them
// (daemon/keeper), and the adapter that follows takes them up again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"

namespace softhca {

/// Names what is kept. 0: nothing. A number is never used twice.
using KeptId = std::uint64_t;

/// How the next adapter finds memory that no record names.
enum class KeptRole : std::uint32_t {
  kNone,     ///< a record names it
  kRecords,  ///< records of live objects; there may be several
  kEngine,   ///< durable state of the engine
};

/// Any thread may call it.
class Keeping {
 public:
  virtual ~Keeping() = default;
  Keeping(const Keeping&) = delete;
  Keeping& operator=(const Keeping&) = delete;

  // --- what this adapter gives

  /// Keeps a duplicate of a descriptor. Errors: EMFILE, and EPIPE (the keeper has gone).
  virtual Expected<KeptId> keep(int fd) = 0;
  /// Keeps memory: a duplicate of its memfd, and a mapping for writing. REQUIRES: it is not sealed
  /// against such mappings. Errors: as keep(), and ENOMEM.
  virtual Expected<KeptId> keep_memory(int fd, std::size_t bytes,
                                       KeptRole role = KeptRole::kNone) = 0;
  /// Closes the duplicate of kept memory that is sealed. The mapping stays.
  virtual void close_descriptor(KeptId id) = 0;
  /// Ends the keeping. Returns when the keeper holds nothing of it any more: unmap memory after
  /// that, so that its pages are freed by this process and not by the keeper.
  virtual void drop(KeptId id) = 0;

  // --- what an earlier adapter gave

  /// Returns a descriptor of what is kept, which the caller owns. Empty: nothing has this number,
  /// or its descriptor was closed. The keeping goes on.
  virtual UniqueFd descriptor(KeptId id) = 0;
  /// Returns this process's mapping of kept memory, which the caller may unmap. Empty: nothing has
  /// this number.
  virtual std::span<std::byte> memory(KeptId id) = 0;
  /// Returns the number of the memory of a role that follows `after`, in the order of the numbers.
  /// 0: there is none.
  virtual KeptId find(KeptRole role, KeptId after = 0) = 0;

 protected:
  Keeping() = default;
};

}  // namespace softhca
