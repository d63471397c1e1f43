// The names of shared memory, by which other sessions of the same user join it. Belongs to the
// control thread.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "abi/control.hpp"
#include "daemon/base/expected.hpp"
#include "daemon/control/session/device_files.hpp"
#include "daemon/memory/shared_buffer.hpp"

namespace softhca::control {

class SharedNames {
 public:
  /// The token of the memory, which it keeps. Errors: no random bits to be had.
  Expected<abi::SharedToken> name(const std::shared_ptr<memory::SharedBuffer>& buffer,
                                  const FileUser& user);
  /// Null: the user has no memory with this token.
  std::shared_ptr<memory::SharedBuffer> find(const abi::SharedToken& token,
                                             const FileUser& user) const;
  /// Those that have gone are counted, but forgotten before they are more than the others.
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
  std::size_t forget_at_ = 64;  ///< when there are so many
};

}  // namespace softhca::control
