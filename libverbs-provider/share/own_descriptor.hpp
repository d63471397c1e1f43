// SPDX-License-Identifier: Apache-2.0

// Descriptors of the provider in a program that may close descriptors that it did not open
// (closefrom(3)), and reuse their numbers for its own files. The provider must neither use nor
// close those files.
#pragma once

#include <sys/types.h>

namespace softhca::provider {

/// Identifies open sockets and files, but not eventfds, which share one inode.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;

  bool operator==(const FileIdentity&) const = default;
};

/// Returns the identity of the open file; zeros if `fd` is closed.
FileIdentity identity_of(int fd);

class OwnDescriptor {
 public:
  OwnDescriptor() = default;
  ~OwnDescriptor() { reset(); }
  OwnDescriptor(const OwnDescriptor&) = delete;
  OwnDescriptor& operator=(const OwnDescriptor&) = delete;

  /// Takes over `fd`. Closes the previous one if it is still the provider's.
  void reset(int fd = -1);
  /// Returns the number, or -1.
  int get() const { return fd_; }
  /// True if the number still refers to the file that was taken over. Asks the kernel.
  bool is_ours() const { return fd_ >= 0 && identity_of(fd_) == identity_; }

 private:
  int fd_ = -1;
  FileIdentity identity_;
};

}  // namespace softhca::provider
