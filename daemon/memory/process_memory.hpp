// Reaching the memory of a tenant process through the kernel: works on any memory, costs a system
// call. For memory that could not be shared.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <memory>
#include <span>

#include "daemon/base/expected.hpp"
#include "daemon/base/verdict.hpp"

namespace softhca::memory {

class ProcessMemory {
 public:
  /// Errors: ESRCH (no such process), EMFILE, ...
  static Expected<std::shared_ptr<ProcessMemory>> open(pid_t pid);
  ~ProcessMemory();
  ProcessMemory(const ProcessMemory&) = delete;
  ProcessMemory& operator=(const ProcessMemory&) = delete;

  pid_t pid() const { return pid_; }
  /// Becomes readable when the process ends. Its session must end with it, even if a child still
  /// holds the tenant socket: process ids are used again.
  int pidfd() const { return pidfd_; }
  /// The process was found gone; nothing is accessed any more.
  bool gone() const { return gone_; }

  /// Moves bytes between `local` (ours) and `remote` (the process's addresses), both of the same
  /// total length, at most IOV_MAX entries each; the entries are used up. kLocalProtection: part
  /// of the range is not mapped or not permitted, or the process is gone; what came before the
  /// fault may have been moved.
  Verdict read(std::span<iovec> local, std::span<iovec> remote);
  Verdict write(std::span<iovec> local, std::span<iovec> remote);

 private:
  using Call = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long,
                           unsigned long);

  ProcessMemory(pid_t pid, int pidfd) : pid_(pid), pidfd_(pidfd) {}
  Verdict transfer(Call call, std::span<iovec> local, std::span<iovec> remote);

  pid_t pid_;
  int pidfd_;
  bool gone_ = false;
};

}  // namespace softhca::memory
