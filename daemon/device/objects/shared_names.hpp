// SPDX-License-Identifier: Apache-2.0

// The names of shared memory, by which other sessions of the same user join it. The control thread
// owns them.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "abi/control.hpp"
#include "daemon/base/expected.hpp"
#include "daemon/device/objects/device_files.hpp"
#include "daemon/tenant_memory/shared_buffer.hpp"

namespace softhca::control {

class SharedNames {
 public:
  /// Returns the token of the memory, which stays the same. Error: the kernel gave no random bits.
  Expected<abi::SharedToken> name(const std::shared_ptr<memory::SharedBuffer>& buffer,
                                  const FileUser& user);
  /// Gives memory the token that it had with an earlier adapter.
  void restore(const std::shared_ptr<memory::SharedBuffer>& buffer, const FileUser& user,
               const abi::SharedToken& token);
  /// Returns the user's memory with this token. Null: no memory has it.
  std::shared_ptr<memory::SharedBuffer> find(const abi::SharedToken& token,
                                             const FileUser& user) const;
  /// Returns the number of names. Names of memory that is gone count, but are dropped before they
  /// outnumber the others.
  std::size_t size() const { return tokens_.size(); }

 private:
  struct Name {
    FileUser user;
    std::array<std::uint8_t, sizeof(abi::SharedToken)> token;
    auto operator<=>(const Name&) const = default;
  };
  using Buffer = std::weak_ptr<memory::SharedBuffer>;

  void forget_gone();

  std::map<Name, Buffer> buffers_;
  std::map<Buffer, abi::SharedToken, std::owner_less<Buffer>> tokens_;
  std::size_t forget_at_ = 64;  ///< number of names at which expired ones are dropped
};

}  // namespace softhca::control
