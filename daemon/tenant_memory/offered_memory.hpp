// SPDX-License-Identifier: Apache-2.0

// The memory that a process offers: the process opens /proc/self/mem and passes the descriptor, so
// the daemon needs no rights over the process.
#pragma once

#include <sys/types.h>

#include <span>
#include <utility>

#include "daemon/base/unique_fd.hpp"
#include "daemon/tenant_memory/process_memory.hpp"

namespace softhca::memory {

/// The descriptor belongs to the address space that the process had when it opened the file, not to
/// the process. It never reaches what the process executes later, perhaps with more rights. The
/// process can delay a caller for as long as it likes: with a page fault, with its locks, or with a
/// descriptor of another kind.
class OfferedMemory final : public ProcessMemory {
 public:
  /// `socket`: the process holds the other end and sends one record with the descriptor.
  explicit OfferedMemory(UniqueFd socket) : socket_(std::move(socket)) {}

  Verdict read(std::span<iovec> local, std::span<iovec> remote) override;
  Verdict write(std::span<iovec> local, std::span<iovec> remote) override;
  /// Takes the descriptor, if the process has sent it; else the first access does so. Returns if it
  /// is there.
  bool receive();

 private:
  using Call = ssize_t (*)(int, const iovec*, int, off_t);

  Verdict transfer(Call call, std::span<iovec> local, std::span<iovec> remote);

  UniqueFd socket_;
  UniqueFd memory_;  ///< /proc/<pid>/mem; empty: not received yet, or not such a file
};

}  // namespace softhca::memory
