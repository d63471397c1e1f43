// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/preload/redirect.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace softhca::preload {
namespace {

constexpr char kClass[] = "/sys/class/infiniband";
constexpr char kParents[] = "/sys/devices/softhca";
constexpr char kInterfaces[] = "/sys/class/net/";
constexpr char kDevices[] = "/dev/infiniband/";

template <std::size_t kSize>
bool begins_with(const char* path, const char (&beginning)[kSize]) {
  return std::strncmp(path, beginning, kSize - 1) == 0;
}

/// Joins strings. False: the result is too long.
template <class... Parts>
bool join(char (&buffer)[PATH_MAX], Parts... parts) {
  std::size_t length = 0;
  for (const char* part : {parts...}) {
    const std::size_t more = std::strlen(part);
    if (length + more >= sizeof(buffer)) return false;
    std::memcpy(buffer + length, part, more + 1);
    length += more;
  }
  return true;
}

// Uses system calls, because this library replaces the C library's functions.

bool exists(const char* path) {
  char target[1];
  return ::syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0 ||
         ::syscall(SYS_readlinkat, AT_FDCWD, path, target, sizeof target) >= 0;
}

/// Makes absolute a path that starts at an open folder, or at the working directory.
bool make_absolute(int directory, const char* path, char (&whole)[PATH_MAX]) {
  char link[32] = "/proc/self/cwd";
  if (directory != AT_FDCWD) std::snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
  const long length = ::syscall(SYS_readlinkat, AT_FDCWD, link, whole, sizeof whole - 2);
  if (length <= 0) return false;
  char* end = whole + length;
  if (end[-1] != '/') *end++ = '/';
  while (path[0] == '.' && path[1] == '/') path += 2;
  const std::size_t more = std::strlen(path) + 1;
  if (more > static_cast<std::size_t>(whole + sizeof whole - end)) return false;
  std::memcpy(end, path, more);
  return true;
}

/// True if the name ends at `rest`, as a file or as a folder.
bool ends_name(const char* rest) { return *rest == '\0' || *rest == '/'; }

/// Returns the part behind "/sys" of a path that may be in the tree, or nullptr.
const char* tree_entry(const char* path) {
  constexpr std::size_t kSys = sizeof("/sys") - 1;
  if (begins_with(path, kClass)) {
    const char* rest = path + sizeof(kClass) - 1;
    if (std::strncmp(rest, "_verbs", 6) == 0) rest += 6;
    return ends_name(rest) ? path + kSys : nullptr;
  }
  if (begins_with(path, kParents))
    return ends_name(path + sizeof(kParents) - 1) ? path + kSys : nullptr;
  return begins_with(path, kInterfaces) && !exists(path) ? path + kSys : nullptr;
}

const char* device_name(const char* path) {
  if (!begins_with(path, kDevices)) return nullptr;
  const char* name = path + sizeof(kDevices) - 1;
  const bool plain = *name != '\0' && *name != '.' && std::strchr(name, '/') == nullptr;
  return plain ? name : nullptr;
}

}  // namespace

const char* device_tree() {
  const char* value = ::secure_getenv("SOFTHCA_SYSFS");
  return value != nullptr && value[0] == '/' ? value : nullptr;
}

Redirected::Redirected(int directory, const char* original) : path_(original) {
  if (original == nullptr) return;
  const bool absolute = original[0] == '/';
  if (absolute ? original[1] != 's' && original[1] != 'd'
               : std::strstr(original, "infiniband") == nullptr)
    return;
  const char* root = device_tree();
  if (root == nullptr) return;
  const int error = errno;
  if (absolute)
    redirect(root, original);
  else
    redirect_relative(root, directory, original);
  errno = error;
}

/// A separate function, so that an absolute path needs less stack.
__attribute__((noinline)) void Redirected::redirect_relative(const char* root, int directory,
                                                             const char* path) {
  char whole[PATH_MAX];
  if (make_absolute(directory, path, whole)) redirect(root, whole);
}

void Redirected::redirect(const char* root, const char* path) {
  if (const char* entry = tree_entry(path)) {
    if (join(buffer_, root, entry, "") && exists(buffer_)) path_ = buffer_;
  } else if (const char* device = device_name(path)) {
    if (join(buffer_, root, kParents + sizeof("/sys") - 1, "/", device) && exists(buffer_))
      path_ = "/dev/null";
  }
}

}  // namespace softhca::preload
