// SPDX-License-Identifier: Apache-2.0

// fstat of descriptors for ibv_import_device(). The library accepts only descriptors of character
// devices, and finds the device by its number.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "libverbs-provider/device_file.hpp"
#include "libverbs-provider/preload/next.hpp"

using softhca::preload::Next;
using softhca::provider::DeviceFileContent;

namespace {

template <class Stat>
int as_device(int fd, Stat* found, int result) {
  constexpr auto kBytes = sizeof(DeviceFileContent);
  if (result != 0 || !S_ISREG(found->st_mode) || found->st_nlink != 0 || found->st_size != kBytes)
    return result;
  const int error = errno;
  DeviceFileContent content;
  const bool ours =
      ::pread(fd, &content, kBytes, 0) == static_cast<ssize_t>(kBytes) &&
      std::memcmp(content.magic, softhca::provider::kDeviceFileMagic, sizeof content.magic) == 0;
  errno = error;
  if (!ours) return result;
  found->st_mode = S_IFCHR | 0600;
  found->st_rdev = content.number;
  found->st_size = 0;
  return result;
}

}  // namespace

#define FSTAT_FUNCTION(name, Stat)                                        \
  extern "C" SOFTHCA_INTERPOSE int softhca_##name(int, Stat*) asm(#name); \
  extern "C" int softhca_##name(int fd, Stat* found) {                    \
    static constinit Next<int(int, Stat*)> next{#name};                   \
    return as_device(fd, found, next.get()(fd, found));                   \
  }

// For programs linked before glibc 2.33.
#define FXSTAT_FUNCTION(name, Stat)                                            \
  extern "C" SOFTHCA_INTERPOSE int softhca_##name(int, int, Stat*) asm(#name); \
  extern "C" int softhca_##name(int version, int fd, Stat* found) {            \
    static constinit Next<int(int, int, Stat*)> next{#name};                   \
    return as_device(fd, found, next.get()(version, fd, found));               \
  }

FSTAT_FUNCTION(fstat, struct stat)
FSTAT_FUNCTION(fstat64, struct stat64)
FXSTAT_FUNCTION(__fxstat, struct stat)
FXSTAT_FUNCTION(__fxstat64, struct stat64)
