// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/objects/device_files.hpp"

#include <sys/random.h>

#include <algorithm>

#include "daemon/base/system_error.hpp"

namespace softhca::control {

Expected<abi::ContextToken> DeviceFiles::share(const std::shared_ptr<DeviceFile>& file,
                                               const FileUser& user) {
  if (file->token) return *file->token;
  abi::ContextToken token{};
  if (::getrandom(token.bytes, sizeof token.bytes, 0) != static_cast<ssize_t>(sizeof token.bytes))
    return system_error("random bits for the token of a device file");
  file->token = token;
  add(file, user);
  return token;
}

std::shared_ptr<DeviceFile> DeviceFiles::make(std::uint32_t number) {
  auto file = std::make_shared<DeviceFile>();
  file->number = number != 0 ? number : next_;
  next_ = std::max(next_, file->number + 1);
  return file;
}

void DeviceFiles::add(const std::shared_ptr<DeviceFile>& file, const FileUser& user) {
  files_[{user, std::to_array(file->token->bytes)}] = file;
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
