// The file behind ibv_context::cmd_fd. A copy of the descriptor, however a process came by it, is
// all that ibv_import_device() gets; so the file holds what lets others of the user join the
// session. It is a memfd; the preload library has fstat() say that it is the device's, which is
// what the library looks for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "abi/control.hpp"

namespace softhca::provider {

inline constexpr char kDeviceFileMagic[16] = "softhca device";

/// Everything that is in the file.
struct DeviceFileContent {
  char magic[16];        ///< kDeviceFileMagic
  std::uint64_t number;  ///< dev_t of the device
  abi::ContextToken token;
};
static_assert(sizeof(DeviceFileContent) == 40);

/// Puts such a file in the place of the open file `fd`. 0 or an errno value.
int make_device_file(int fd, std::uint64_t number, const abi::ContextToken& token);

/// False: it is another file.
bool read_device_file(int fd, DeviceFileContent& content);

}  // namespace softhca::provider
