// SPDX-License-Identifier: Apache-2.0

// The file behind ibv_context::cmd_fd. ibv_import_device() gets only a copy of this descriptor, so
// the file holds a token with which other processes of the user join the session. It is a memfd.
// The preload library makes fstat() report it as the device's file, as the library expects.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/control.hpp"

namespace softhca::provider {

inline constexpr char kDeviceFileMagic[16] = "softhca device";

/// The whole content of the file.
struct DeviceFileContent {
  char magic[16];        ///< kDeviceFileMagic
  std::uint64_t number;  ///< dev_t of the device
  abi::ContextToken token;
};
static_assert(sizeof(DeviceFileContent) == 40);

/// Replaces the open file `fd` by such a file. Returns 0 or an errno value.
int make_device_file(int fd, std::uint64_t number, const abi::ContextToken& token);

/// Reads the content. False: it is another file.
bool read_device_file(int fd, DeviceFileContent& content);

}  // namespace softhca::provider
