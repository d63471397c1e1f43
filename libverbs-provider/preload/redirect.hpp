// SPDX-License-Identifier: Apache-2.0

// Redirects paths of /sys and /dev in a process that uses a softhca tenant. $SOFTHCA_SYSFS names
// the tenant's tree, which the daemon keeps in the layout of /sys.
#pragma once

#include <sys/types.h>

#include <climits>

namespace softhca::preload {

/// Returns the root of the tenant's tree; nullptr: the process was started without one.
const char* device_tree();

/// The path to use instead of another, which may start at the open folder `directory` (as for
/// openat(2)):
/// - /sys/class/infiniband..., /sys/class/infiniband_verbs..., /sys/devices/softhca...: the tree's,
///   if it has the entry;
/// - /sys/devices/pci..., /sys/class/pci_bus/..., /sys/bus/pci/devices...: the same;
/// - /sys/class/net/NAME...: the same, if the kernel has no interface of this name;
/// - /dev/infiniband/DEV, for a device DEV of the tree: /dev/null, which has the number (1:3) that
///   the tree gives for the first device.
/// Other paths stay. Allocates nothing; keeps errno.
class Redirected {
 public:
  Redirected(int directory, const char* original);
  const char* path() const { return path_; }
  /// Returns the descriptor that a program gets for `fd`, to which open() has opened path(). The
  /// file of a device other than the first has the number of the device (device_file.hpp). If it
  /// cannot be made, closes `fd` and returns -1 with errno. `fd` may be -1.
  int opened(int fd) const;
  /// Rewrites a path that realpath() has resolved from path(), to one below /sys, and returns it.
  char* in_sys(char* resolved) const;

 private:
  void redirect(const char* root, const char* path);
  void redirect_relative(const char* root, int directory, const char* path);

  const char* path_;
  dev_t number_ = 0;         ///< of a device other than the first
  bool is_in_tree_ = false;  ///< path_ is below the root of the tree
  char buffer_[PATH_MAX];
};

}  // namespace softhca::preload
