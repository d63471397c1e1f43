// SPDX-License-Identifier: Apache-2.0

// The machine's region as the guest has it: a device of virtio-pmem in mode devdax. For tests it
// may be a file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "abi/control.hpp"
#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"

namespace softhca::guest {

class Region {
 public:
  /// Opens the region at `path`; empty: the first /dev/dax*. `sysfs`: where the kernel describes
  /// devices.
  static Expected<Region> open(const std::string& path, const std::string& sysfs = "/sys");

  Region(Region&& other) noexcept;
  Region& operator=(Region&&) = delete;
  ~Region();

  int fd() const { return fd_.get(); }
  /// Returns the byte of the region at which the device begins. The bytes before belong to the
  /// kernel.
  std::uint64_t begin() const { return begin_; }
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t device() const { return device_; }
  std::uint64_t inode() const { return inode_; }

  /// Maps the place for zero(), instead of an earlier one.
  Outcome map(const abi::MemoryPlace& place);
  /// Fills bytes of the mapped place with zeros. `offset`: as in `place`.
  void zero(std::uint64_t offset, std::uint64_t bytes);

 private:
  Region() = default;
  Outcome find_device(const std::string& path, const std::string& sysfs, std::uint64_t number);
  void unmap();

  UniqueFd fd_;
  std::uint64_t begin_ = 0, bytes_ = 0;
  std::uint64_t device_ = 0, inode_ = 0;  ///< as /proc/PID/maps has them
  abi::MemoryPlace place_{};              ///< that is mapped
  std::byte* memory_ = nullptr;
};

}  // namespace softhca::guest
