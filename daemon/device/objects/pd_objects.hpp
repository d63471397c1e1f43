// SPDX-License-Identifier: Apache-2.0

// Protection domains of a session. They are in its device file. Sessions of one user may share the
// file (ibv_import_device), and with it the domains and their regions.
#pragma once

#include <memory>

#include "daemon/device/objects/device_context.hpp"
#include "daemon/device/objects/device_files.hpp"
#include "daemon/device/objects/object_records.hpp"
#include "daemon/device/objects/shared_objects.hpp"

namespace softhca::control {

class PdObjects {
 public:
  PdObjects(const SessionContext& context, SharedObjects& shared)
      : context_(context), shared_(shared), file_(shared.device_files.make()) {}
  ~PdObjects() { end(Turn::endless()); }
  PdObjects(const PdObjects&) = delete;
  PdObjects& operator=(const PdObjects&) = delete;

  /// Returns a domain. Null: unknown handle.
  PdObject* find(std::uint32_t handle) const { return file_->pds.find(handle); }
  std::uint32_t size() const { return file_->pds.size(); }
  /// Returns the regions of the device file.
  HandleTable<MrObject>& regions() const { return file_->mrs; }
  /// True if no other session has the file.
  bool are_unshared() const { return file_.use_count() == 1; }

  /// Leaves the device file, as the session ends and uses no domain any longer. Returns true if no
  /// other session has the file, or can get it. Returns false if the session has left it to others.
  bool leave_file();
  /// As QpObjects::end(). REQUIRES: no object uses a domain that this session alone has.
  bool end(const Turn& turn);

  /// Gives its own file the number that an earlier adapter gave it.
  void restore_own_file(std::uint32_t number) { file_ = shared_.device_files.make(number); }
  /// Return false if the record does not fit.
  bool restore_file(const record::DeviceFile& kept, const std::shared_ptr<DeviceFile>& file,
                    records::Record record);
  bool restore(const record::ProtectionDomain& kept, records::Record record);
  const std::shared_ptr<DeviceFile>& file() const { return file_; }

  int alloc(const RequestBody& body, Reply& reply);
  int dealloc(const RequestBody& body, Reply& reply);
  int import(const RequestBody& body, Reply& reply);
  int share_context(const RequestBody& body, Reply& reply);
  int join_context(const RequestBody& body, Reply& reply);

 private:
  void write_file();

  const SessionContext& context_;
  SharedObjects& shared_;
  std::shared_ptr<DeviceFile> file_;
  records::Record file_record_;  ///< while the file is shared
};

}  // namespace softhca::control
