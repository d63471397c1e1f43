// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/preload/redirect.hpp"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "libverbs-provider/device_file.hpp"

namespace softhca::preload {
namespace {

constexpr char kClass[] = "/sys/class/infiniband";
constexpr char kParents[] = "/sys/devices/softhca";
constexpr char kPciParents[] = "/sys/devices/pci";
constexpr char kPciBuses[] = "/sys/class/pci_bus/";
constexpr char kPciDevices[] = "/sys/bus/pci/devices";
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
  if (begins_with(path, kPciDevices))
    return ends_name(path + sizeof(kPciDevices) - 1) ? path + kSys : nullptr;
  if (begins_with(path, kPciParents) || begins_with(path, kPciBuses)) return path + kSys;
  return begins_with(path, kInterfaces) && !exists(path) ? path + kSys : nullptr;
}

/// Reads the number of a device other than the first from its entry in the tree; 0: it has none. A
/// separate function, so that other paths need less stack.
__attribute__((noinline)) dev_t number_of(const char* root, const char* device) {
  char path[PATH_MAX];
  if (!join(path, root, "/class/infiniband/", device, "/softhca_device") || !exists(path) ||
      !join(path, root, "/class/infiniband_verbs/", device, "/dev"))
    return 0;
  const long fd = ::syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[32];
  const long length = ::syscall(SYS_read, fd, text, sizeof text - 1);
  ::syscall(SYS_close, fd);
  text[length > 0 ? length : 0] = '\0';
  unsigned first = 0, second = 0;
  return std::sscanf(text, "%u:%u", &first, &second) == 2 ? makedev(first, second) : 0;
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
               : std::strstr(original, "infiniband") == nullptr &&
                     std::strstr(original, "pci") == nullptr)
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
    if (!join(buffer_, root, entry, "") || !exists(buffer_)) return;
    path_ = buffer_;
    is_in_tree_ = true;
  } else if (const char* device = device_name(path)) {
    number_ = number_of(root, device);
    if (number_ != 0 ||
        (join(buffer_, root, "/class/infiniband/", device, "/softhca_socket") && exists(buffer_)))
      path_ = "/dev/null";
  }
}

int Redirected::opened(int fd) const {
  if (fd < 0 || number_ == 0) return fd;
  const int error = provider::make_device_file(fd, number_, {});
  if (error == 0) return fd;
  ::close(fd);
  errno = error;
  return -1;
}

char* Redirected::in_sys(char* resolved) const {
  constexpr char kSys[] = "/sys";
  char root[PATH_MAX];
  if (!is_in_tree_ || resolved == nullptr || ::realpath(device_tree(), root) == nullptr)
    return resolved;
  const std::size_t length = std::strlen(root);
  if (length < sizeof kSys - 1 || std::strncmp(resolved, root, length) != 0 ||
      resolved[length] != '/')
    return resolved;
  std::memmove(resolved + sizeof kSys - 1, resolved + length, std::strlen(resolved + length) + 1);
  std::memcpy(resolved, kSys, sizeof kSys - 1);
  return resolved;
}

}  // namespace softhca::preload
