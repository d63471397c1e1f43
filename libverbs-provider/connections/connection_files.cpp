// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/connections/connection_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>

#include "libverbs-provider/abi34.hpp"
#include "libverbs-provider/connections/cm_requests.hpp"
#include "libverbs-provider/connections/import_redirect.hpp"
#include "libverbs-provider/connections/open_channels.hpp"
#include "libverbs-provider/control/tenant_socket.hpp"
#include "libverbs-provider/explain.hpp"
#include "libverbs-provider/lock.hpp"

namespace softhca::provider {
namespace {

constexpr char kDeviceFile[] = "/dev/infiniband/rdma_cm";

Mutex setup_lock;  ///< guards the variables below
char socket_path[kSocketPathBytes];
bool watching = false;

// --- functions that librdmacm calls -----------------------------------------------------------

int open_device_file(int flags) {
  char path[kSocketPathBytes];
  {
    Guard guard(setup_lock);
    std::memcpy(path, socket_path, sizeof path);
  }
  int fd = -1;
  if (const int error = open_channel(path, fd)) {
    failed("rdma_create_event_channel", error);
    return -1;
  }
  // The new descriptor has close-on-exec set; `flags` decide about that, and about blocking.
  if ((flags & O_CLOEXEC) == 0) ::fcntl(fd, F_SETFD, 0);
  ::fcntl(fd, F_SETFL, flags & O_NONBLOCK);
  return fd;
}

int rdmacm_open(const char* path, int flags, ...) {
  if (std::strcmp(path, kDeviceFile) == 0) return open_device_file(flags);
  if ((flags & (O_CREAT | O_TMPFILE)) == 0) return ::open(path, flags);
  va_list list;
  va_start(list, flags);
  const mode_t mode = va_arg(list, mode_t);
  va_end(list);
  return ::open(path, flags, mode);
}

/// Reports a character device, because the library requires one.
int rdmacm_fstat(int fd, struct stat* found) {
  const int result = ::fstat(fd, found);
  if (result == 0 && channel_file(fd) == ChannelFile::kChannel)
    found->st_mode = (found->st_mode & ~S_IFMT) | S_IFCHR;
  return result;
}

ssize_t rdmacm_write(int fd, const void* buffer, std::size_t bytes) {
  if (channel_file(fd) == ChannelFile::kForeign) return ::write(fd, buffer, bytes);
  return write_command(fd, buffer, bytes);
}

int rdmacm_close(int fd) {
  const bool reused = channel_file(fd) == ChannelFile::kReused;
  forget_channel(fd);
  if (!reused) return ::close(fd);
  errno = EBADF;
  return -1;
}

// --- redirection -----------------------------------------------------------------------------

void redirect_rdmacm() {
  static const Redirection kRedirections[] = {
      {"close", reinterpret_cast<void*>(&rdmacm_close)},
      {"write", reinterpret_cast<void*>(&rdmacm_write)},
      {"fstat", reinterpret_cast<void*>(&rdmacm_fstat)},
      {"fstat64", reinterpret_cast<void*>(&rdmacm_fstat)},
      // Last, so that no channel is made before the other functions know channels.
      {"open", reinterpret_cast<void*>(&rdmacm_open)},
      {"open64", reinterpret_cast<void*>(&rdmacm_open)},
  };
  redirect_imports_of("librdmacm", kRedirections);
}

/// Called when libibverbs scans for devices. librdmacm may have been loaded since the last scan,
/// and it asks for devices before it opens the device file.
DIR* verbs_opendir(const char* path) {
  redirect_rdmacm();
  return ::opendir(path);
}

/// REQUIRES: setup_lock held.
void watch_for_library() {
  if (watching) return;
  watching = true;
  redirect_import(reinterpret_cast<const void*>(&verbs_set_ops), "opendir",
                  reinterpret_cast<void*>(&verbs_opendir));
  keep_channels_in_children();
}

}  // namespace

void serve_connections(const char* tenant_socket) {
  {
    Guard guard(setup_lock);
    std::strncpy(socket_path, tenant_socket, sizeof socket_path - 1);
    watch_for_library();
  }
  redirect_rdmacm();
}

}  // namespace softhca::provider
