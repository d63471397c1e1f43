// Which paths of /sys and /dev stand for something else in a process that uses a softhca tenant.
// $SOFTHCA_SYSFS names the tenant's tree, which the daemon keeps in the layout of /sys.
#pragma once

#include <climits>

namespace softhca::preload {

/// Returns the root of the tenant's tree; nullptr: the process was started without one.
const char* device_tree();

/// The path to use in place of another, which may begin at the open folder `directory` (as with
/// openat(2)):
/// - /sys/class/infiniband..., /sys/class/infiniband_verbs..., /sys/devices/softhca...: the tree's,
///   if it has the entry;
/// - /sys/class/net/NAME...: likewise, if the kernel has no interface of this name;
/// - /dev/infiniband/DEV, DEV being a device of the tree: /dev/null, whose number (1:3) is what the
///   tree gives as the device's.
/// Everything else stays. No allocation; keeps errno.
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
