// SPDX-License-Identifier: Apache-2.0

// Redirects paths of /sys and /dev in a process that uses a softhca tenant. $SOFTHCA_SYSFS names
// the tenant's tree, which the daemon keeps in the layout of /sys.
#pragma once

#include <climits>

namespace softhca::preload {

/// Returns the root of the tenant's tree; nullptr: the process was started without one.
const char* device_tree();

/// The path to use instead of another, which may start at the open folder `directory` (as for
/// openat(2)):
/// - /sys/class/infiniband..., /sys/class/infiniband_verbs..., /sys/devices/softhca...: the tree's,
///   if it has the entry;
/// - /sys/class/net/NAME...: the same, if the kernel has no interface of this name;
/// - /dev/infiniband/DEV, for a device DEV of the tree: /dev/null, which has the number (1:3) that
///   the tree gives for the device.
/// Other paths stay. Allocates nothing; keeps errno.
class Redirected {
 public:
  Redirected(int directory, const char* original);
  const char* path() const { return path_; }

 private:
  void redirect(const char* root, const char* path);
  void redirect_relative(const char* root, int directory, const char* path);

  const char* path_;
  char buffer_[PATH_MAX];
};

}  // namespace softhca::preload
