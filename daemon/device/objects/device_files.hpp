// SPDX-License-Identifier: Apache-2.0

// State of sessions that share a device file (ibv_import_device): protection domains and regions. A
// session that does not share has a file of its own. The control thread owns the files.
#pragma once

#include <sys/types.h>

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "abi/control.hpp"
#include "daemon/base/expected.hpp"
#include "daemon/base/handle_table.hpp"
#include "daemon/base/types.hpp"
#include "daemon/configuration/resource_manager/accounts.hpp"
#include "daemon/device/objects/object_records.hpp"
#include "daemon/device/objects/pd_object.hpp"
#include "daemon/live_records/record_store.hpp"
#include "daemon/tenant_memory/region.hpp"

namespace softhca::control {

struct MrObject {
  records::Record record;
  std::uint32_t handle = 0;
  std::uint32_t pd_handle = 0;
  // For its record. Nothing if no adapter follows.
  record::SessionKey offers = 0;  ///< the session that registered the extents
  std::vector<record::RegionExtent> kept_extents;
  configuration::Charge charge;
  configuration::Charge bytes;
  configuration::Charge extents;  ///< for the extents beyond the first
  std::uint32_t key = 0;
  PdUse pd;
  /// The engine owns it until the control thread replaces or removes it. The region itself never
  /// changes.
  const memory::Region* region = nullptr;

  /// Returns the remote key. 0: peers cannot reach the region.
  std::uint32_t rkey() const { return region->is_null() ? 0 : key; }
};

/// The user of the processes that share a file. A token is valid only for the same user of the same
/// tenant.
struct FileUser {
  TenantId tenant;
  uid_t uid = 0;
  auto operator<=>(const FileUser&) const = default;
};

struct DeviceFile {
  std::uint32_t number = 0;
  HandleTable<PdObject> pds;
  HandleTable<MrObject> mrs;
  /// The token by which other sessions join; nothing: they may not yet.
  std::optional<abi::ContextToken> token;
  std::uint8_t device = 0;  ///< the tenant's device of its sessions; valid with the token
};

/// The files that may be shared.
class DeviceFiles {
 public:
  /// Makes a file. `number`: that an earlier adapter gave it; 0: none has.
  std::shared_ptr<DeviceFile> make(std::uint32_t number = 0);
  /// Lets sessions of the user find a file by its token.
  void add(const std::shared_ptr<DeviceFile>& file, const FileUser& user);
  /// Returns the token by which other sessions of the user join. Error: the kernel gave no random
  /// bits.
  Expected<abi::ContextToken> share(const std::shared_ptr<DeviceFile>& file, const FileUser& user);
  /// Returns the user's file with this token. Null: no file has it.
  std::shared_ptr<DeviceFile> find(const abi::ContextToken& token, const FileUser& user) const;
  /// Drops a file when its last session ends.
  void forget(const DeviceFile& file, const FileUser& user);

 private:
  struct Name {
    FileUser user;
    std::array<std::uint8_t, sizeof(abi::ContextToken)> token;
    auto operator<=>(const Name&) const = default;
  };
  std::map<Name, std::weak_ptr<DeviceFile>> files_;
  std::uint32_t next_ = 1;
};

}  // namespace softhca::control
