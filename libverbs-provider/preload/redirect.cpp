#include "libverbs-provider/preload/redirect.hpp"

#include <fcntl.h>
#include <linux/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace softhca::preload {
namespace {

constexpr char kClass[] = "/sys/class/infiniband";
constexpr char kVerbsClass[] = "/class/infiniband_verbs/";
constexpr char kDevices[] = "/dev/infiniband/";

const char* tree() {
  const char* value = ::secure_getenv("SOFTHCA_SYSFS");
  return value != nullptr && value[0] == '/' ? value : nullptr;
}

/// Joins strings; false if the result is too long.
bool join(char (&buffer)[PATH_MAX], const char* first, const char* second, const char* third) {
  std::size_t length = 0;
  for (const char* part : {first, second, third}) {
    const std::size_t more = std::strlen(part);
    if (length + more >= sizeof(buffer)) return false;
    std::memcpy(buffer + length, part, more + 1);
    length += more;
  }
  return true;
}

// The kernel is asked directly: the library's functions are the ones replaced here.

bool exists(const char* path) { return ::syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0; }

bool is_directory_itself(const char* path) {
  struct statx found;
  return ::syscall(SYS_statx, AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &found) == 0 &&
         (found.stx_mode & S_IFMT) == S_IFDIR;
}

/// What follows "/sys/class/infiniband" where that is the whole name or part of a longer one of
/// ours; otherwise nullptr.
const char* class_entry(const char* path) {
  if (std::strncmp(path, kClass, sizeof(kClass) - 1) != 0) return nullptr;
  const char* rest = path + sizeof(kClass) - 1;
  if (std::strncmp(rest, "_verbs", 6) == 0) rest += 6;
  return *rest == '\0' || *rest == '/' ? path + sizeof("/sys") - 1 : nullptr;
}

const char* device_name(const char* path) {
  if (std::strncmp(path, kDevices, sizeof(kDevices) - 1) != 0) return nullptr;
  const char* name = path + sizeof(kDevices) - 1;
  const bool plain = *name != '\0' && *name != '.' && std::strchr(name, '/') == nullptr;
  return plain ? name : nullptr;
}

}  // namespace

bool active() { return tree() != nullptr; }

Redirected::Redirected(const char* original) : path_(original) {
  if (original == nullptr || original[0] != '/' || (original[1] != 's' && original[1] != 'd'))
    return;
  const char* entry = class_entry(original);
  const char* device = device_name(original);
  if (entry == nullptr && device == nullptr) return;
  const char* root = tree();
  if (root == nullptr) return;
  const int error = errno;
  if (entry != nullptr) {
    if (join(buffer_, root, entry, "") && exists(buffer_)) path_ = buffer_;
  } else if (join(buffer_, root, kVerbsClass, device) && is_directory_itself(buffer_)) {
    path_ = "/dev/null";
  }
  errno = error;
}

}  // namespace softhca::preload
