// Which paths of /sys and /dev stand for something else in a process that uses a softhca tenant.
// $SOFTHCA_SYSFS names the tenant's tree, which the daemon keeps in the layout of /sys.
#pragma once

#include <climits>

namespace softhca::preload {

/// True if the process was started with a tenant's tree.
bool active();

/// The path to use in place of another:
/// - /sys/class/infiniband..., /sys/class/infiniband_verbs...: the tree's, if it has the entry;
/// - /dev/infiniband/DEV, DEV being a device of the tree: /dev/null, whose number (1:3) is what the
///   tree gives as the device's. (Entries of real devices are symbolic links in the tree.)
/// Everything else stays. No allocation; keeps errno.
class Redirected {
 public:
  explicit Redirected(const char* original);
  const char* path() const { return path_; }

 private:
  const char* path_;
  char buffer_[PATH_MAX];
};

}  // namespace softhca::preload
