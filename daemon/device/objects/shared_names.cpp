// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/objects/shared_names.hpp"

#include <sys/random.h>

#include "daemon/base/system_error.hpp"

namespace softhca::control {

Expected<abi::SharedToken> SharedNames::name(const std::shared_ptr<memory::SharedBuffer>& buffer,
                                             const FileUser& user) {
  if (const auto known = tokens_.find(buffer); known != tokens_.end()) return known->second;
  abi::SharedToken token{};
  if (::getrandom(token.bytes, sizeof token.bytes, 0) != static_cast<ssize_t>(sizeof token.bytes))
    return system_error("random bits for the token of shared memory");
  restore(buffer, user, token);
  return token;
}

void SharedNames::restore(const std::shared_ptr<memory::SharedBuffer>& buffer, const FileUser& user,
                          const abi::SharedToken& token) {
  if (tokens_.size() >= forget_at_) forget_gone();
  tokens_[buffer] = token;
  buffers_[{user, std::to_array(token.bytes)}] = buffer;
}

std::shared_ptr<memory::SharedBuffer> SharedNames::find(const abi::SharedToken& token,
                                                        const FileUser& user) const {
  const auto found = buffers_.find({user, std::to_array(token.bytes)});
  return found == buffers_.end() ? nullptr : found->second.lock();
}

void SharedNames::forget_gone() {
  std::erase_if(tokens_, [](const auto& entry) { return entry.first.expired(); });
  std::erase_if(buffers_, [](const auto& entry) { return entry.second.expired(); });
  forget_at_ = 2 * tokens_.size() + 64;
}

}  // namespace softhca::control
