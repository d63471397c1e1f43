// Reaching the memory of a tenant process through the kernel: works on any memory, costs a system
// call. For memory that could not be shared.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <memory>
#include <span>
#include <utility>

#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/base/verdict.hpp"

namespace softhca::memory {

/// Bound to the address space that the process has when it is opened, not to the process: what it
/// executes later, perhaps with more rights than it has now, is never reached.
class ProcessMemory {
 public:
  /// `pidfd` and `uid`: the process and its user. Succeeds only where a process of that user
  /// without privileges could reach the memory: not for a process that changed its user or executes
  /// a program that gives rights. Errors: ESRCH (it has ended), EPERM, EACCES (no access),
  /// EMFILE...
  static Expected<std::shared_ptr<ProcessMemory>> open(pid_t pid, uid_t uid, int pidfd);

  /// Moves bytes between `local` (ours) and `remote` (the process's addresses), both of the same
  /// total length, at most IOV_MAX entries each; the entries are used up. kLocalProtection: part
  /// of the range is not mapped, or the address space is gone; what came before the fault may have
  /// been moved.
  Verdict read(std::span<iovec> local, std::span<iovec> remote);
  Verdict write(std::span<iovec> local, std::span<iovec> remote);

 private:
  using Call = ssize_t (*)(int, const iovec*, int, off_t);

  explicit ProcessMemory(UniqueFd memory) : memory_(std::move(memory)) {}
  Verdict transfer(Call call, std::span<iovec> local, std::span<iovec> remote);

  UniqueFd memory_;  ///< /proc/<pid>/mem
};

}  // namespace softhca::memory
