// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/share/own_descriptor.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace softhca::provider {

FileIdentity identity_of(int fd) {
  const int error = errno;
  struct stat file {};
  const bool open = ::fstat(fd, &file) == 0;
  errno = error;
  return open ? FileIdentity{file.st_dev, file.st_ino} : FileIdentity{};
}

void OwnDescriptor::reset(int fd) {
  if (is_ours()) ::close(fd_);
  fd_ = fd;
  identity_ = identity_of(fd);
}

}  // namespace softhca::provider
