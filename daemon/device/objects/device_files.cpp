// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/objects/device_files.hpp"

#include <sys/random.h>

#include "daemon/base/system_error.hpp"

namespace softhca::control {

Expected<abi::ContextToken> DeviceFiles::share(const std::shared_ptr<DeviceFile>& file,
                                               const FileUser& user) {
  if (file->token) return *file->token;
  abi::ContextToken token{};
  if (::getrandom(token.bytes, sizeof token.bytes, 0) != static_cast<ssize_t>(sizeof token.bytes))
    return system_error("random bits for the token of a device file");
  file->token = token;
  files_[{user, std::to_array(token.bytes)}] = file;
  return token;
}

std::shared_ptr<DeviceFile> DeviceFiles::find(const abi::ContextToken& token,
                                              const FileUser& user) const {
  const auto found = files_.find({user, std::to_array(token.bytes)});
  return found == files_.end() ? nullptr : found->second.lock();
}

void DeviceFiles::forget(const DeviceFile& file, const FileUser& user) {
  if (file.token) files_.erase({user, std::to_array(file.token->bytes)});
}

}  // namespace softhca::control
