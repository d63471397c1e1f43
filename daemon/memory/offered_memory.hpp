// The memory that a process offers: it opens /proc/self/mem and passes the descriptor, so nobody
// needs rights over the process to reach it.
#pragma once

#include <sys/types.h>

#include <span>
#include <utility>

#include "daemon/base/unique_fd.hpp"
#include "daemon/memory/process_memory.hpp"

namespace softhca::memory {

/// Bound to the address space that the process had when it opened the file, not to the process:
/// what it executes later, perhaps with more rights than it had then, is never reached. Whoever
/// calls it may be kept waiting by the process for as long as that likes: by a page fault, by its
/// locks, by a descriptor of another kind.
class OfferedMemory final : public ProcessMemory {
 public:
  /// `socket`: its other end is the process's, which sends one record with the descriptor.
  explicit OfferedMemory(UniqueFd socket) : socket_(std::move(socket)) {}

  Verdict read(std::span<iovec> local, std::span<iovec> remote) override;
  Verdict write(std::span<iovec> local, std::span<iovec> remote) override;

 private:
  using Call = ssize_t (*)(int, const iovec*, int, off_t);

  bool receive();
  Verdict transfer(Call call, std::span<iovec> local, std::span<iovec> remote);

  UniqueFd socket_;
  UniqueFd memory_;  ///< /proc/<pid>/mem; none: not received yet, or it was something else
};

}  // namespace softhca::memory
