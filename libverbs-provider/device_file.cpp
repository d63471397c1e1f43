// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/device_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace softhca::provider {
namespace {

bool fill(int fd, const DeviceFileContent& content) {
  constexpr int kSeals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
  return ::write(fd, &content, sizeof content) == static_cast<ssize_t>(sizeof content) &&
         ::fcntl(fd, F_ADD_SEALS, kSeals) == 0;
}

}  // namespace

int make_device_file(int fd, std::uint64_t number, const abi::ContextToken& token) {
  DeviceFileContent content{{}, number, token};
  std::memcpy(content.magic, kDeviceFileMagic, sizeof content.magic);
  const int memory = ::memfd_create("softhca-device", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory < 0) return errno;
  const bool done = fill(memory, content) && ::dup3(memory, fd, O_CLOEXEC) >= 0;
  const int error = done ? 0 : errno;
  ::close(memory);
  return error;
}

bool read_device_file(int fd, DeviceFileContent& content) {
  return ::pread(fd, &content, sizeof content, 0) == static_cast<ssize_t>(sizeof content) &&
         std::memcmp(content.magic, kDeviceFileMagic, sizeof content.magic) == 0;
}

}  // namespace softhca::provider
