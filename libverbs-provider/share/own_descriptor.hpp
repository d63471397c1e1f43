// Descriptors of the provider in a program that may close descriptors it did not open
// (closefrom(3)) and give their numbers to files of its own. The provider must neither use nor
// close those files.
#pragma once

#include <sys/types.h>

namespace softhca::provider {

/// Tells open sockets and files apart. Not eventfds, which share one inode.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;

  bool operator==(const FileIdentity&) const = default;
};

/// Returns the identity of the open file; zeros when `fd` is closed.
FileIdentity identity_of(int fd);

class OwnDescriptor {
 public:
  OwnDescriptor() = default;
  ~OwnDescriptor() { reset(); }
  OwnDescriptor(const OwnDescriptor&) = delete;
  OwnDescriptor& operator=(const OwnDescriptor&) = delete;

  /// Takes `fd` over; closes the one before if that is still ours.
  void reset(int fd = -1);
  /// The number, or -1.
  int get() const { return fd_; }
  /// True if the number still stands for the file that was taken over. Asks the kernel.
  bool is_ours() const { return fd_ >= 0 && identity_of(fd_) == identity_; }

 private:
  int fd_ = -1;
  FileIdentity identity_;
};

}  // namespace softhca::provider
