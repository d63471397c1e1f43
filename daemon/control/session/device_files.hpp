// State common to sessions whose processes share a device file (ibv_import_device): protection
// domains and regions. A session that shares with nobody has such a file for itself. Belongs to the
// control thread.
#pragma once

#include <sys/types.h>

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "abi/control.hpp"
#include "daemon/base/expected.hpp"
#include "daemon/base/types.hpp"
#include "daemon/control/session/handle_table.hpp"
#include "daemon/control/session/protection_domain.hpp"
#include "daemon/memory/region.hpp"
#include "daemon/resource/accounts.hpp"

namespace softhca::control {

struct Mr {
  resource::Charge charge;
  resource::Charge bytes;
  resource::Charge extents;  ///< what is kept for those beyond the first
  std::uint32_t key = 0;
  PdUse pd;
  /// Belongs to the engine until it is replaced or removed, which only we ask for; the region
  /// itself never changes.
  const memory::Region* region = nullptr;

  /// 0: peers cannot reach the region.
  std::uint32_t rkey() const { return region->is_null() ? 0 : key; }
};

/// The user whose processes share a file: a token is of use only to the same user of the same
/// tenant.
struct FileUser {
  TenantId tenant;
  uid_t uid = 0;
  auto operator<=>(const FileUser&) const = default;
};

struct DeviceFile {
  HandleTable<Pd> pds;
  HandleTable<Mr> mrs;
  /// The token by which others join; none: they may not yet.
  std::optional<abi::ContextToken> token;
};

/// The files that may be shared.
class DeviceFiles {
 public:
  /// The token by which others of the user join. Errors: no random bits to be had.
  Expected<abi::ContextToken> share(const std::shared_ptr<DeviceFile>& file, const FileUser& user);
  /// Null: the user has no file with this token.
  std::shared_ptr<DeviceFile> find(const abi::ContextToken& token, const FileUser& user) const;
  /// The last session with the file ends.
  void forget(const DeviceFile& file, const FileUser& user);

 private:
  struct Name {
    FileUser user;
    std::array<std::uint8_t, sizeof(abi::ContextToken)> token;
    auto operator<=>(const Name&) const = default;
  };
  std::map<Name, std::weak_ptr<DeviceFile>> files_;
};

}  // namespace softhca::control
