// SPDX-License-Identifier: Apache-2.0

// The configuration file in force, and the layers over it: tenants made on demand, requested
// changes, and tenants' own changes. Saved tenants and changes are kept in a file of their own.
// Tenants' own changes last as long as the daemon runs. The control thread owns the layers.
//
// The daemon rewrites <state_dir>/saved.json for each change: it writes a new file to the disk, and
// then renames it into place. So the file is complete after a crash.
#pragma once

#include <string>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/configuration/resource_manager/overlay.hpp"
#include "daemon/operate/reload/reload_state.hpp"

namespace softhca::control {

class Layers {
 public:
  /// Reads what was saved in `folder`. If it is empty, nothing can be saved.
  explicit Layers(configuration::Config file, std::string folder = {});

  /// Restores the layers of an earlier adapter. Those that are saved are read from the folder.
  Layers(const ReloadState& earlier, std::string folder);

  /// Returns the configuration that results from `file` and the layers over it.
  configuration::Overlaid over(const configuration::Config& file,
                               const configuration::Held& held = {}) const {
    return lay_over(file, tenants_, saved_, own_, held);
  }
  /// Records that `file` is in force, with the layers in `laid`.
  void adopt(const configuration::Config& file, const configuration::Overlaid& laid);

  const configuration::Config& file() const { return file_; }
  const std::vector<configuration::SavedRequest>& saved() const { return saved_; }
  /// Returns the saved requests that are not in force, and why.
  const std::map<std::uint64_t, configuration::AllocationRefusal>& left_out() const {
    return left_out_;
  }
  const std::vector<configuration::TenantOnDemand>& tenants() const { return tenants_; }
  /// Returns a tenant made on demand. Null: none has this name.
  const configuration::TenantOnDemand* find(const std::string& tenant) const;
  /// Returns the tenants made on demand that are not in force, and why.
  const std::map<std::string, configuration::AllocationRefusal>& absent() const { return absent_; }
  /// Returns the fault of the file of saved changes. Empty: none.
  const std::string& problem() const { return problem_; }
  /// Returns what was skipped of the file of saved changes, and why.
  const std::vector<std::string>& skipped() const { return skipped_; }

  /// Returns the saved changes with one more request, without writing them. The new request is the
  /// last element.
  std::vector<configuration::SavedRequest> with(
      const std::vector<configuration::AllocationChange>& changes) const;
  /// Returns what a restart would restore of `tenants` and of `saved`.
  configuration::Overlaid after_restart(const std::vector<configuration::SavedRequest>& saved,
                                        std::vector<configuration::TenantOnDemand> tenants) const;
  /// Writes the new content beside the file, and makes the folder if needed. Errors: no folder is
  /// configured; the existing file cannot be read and `overwrite` is false; the new content cannot
  /// be written.
  Outcome prepare(const std::vector<configuration::SavedRequest>& saved,
                  bool overwrite = false) const {
    return prepare(saved, tenants_, overwrite);
  }
  Outcome prepare(const std::vector<configuration::SavedRequest>& saved,
                  const std::vector<configuration::TenantOnDemand>& tenants,
                  bool overwrite = false) const;
  /// Puts the prepared content in place of the file. After an error, the file is as before, or may
  /// be so after a crash of the machine.
  Outcome keep(std::vector<configuration::SavedRequest> saved) {
    return keep(std::move(saved), tenants_);
  }
  Outcome keep(std::vector<configuration::SavedRequest> saved,
               std::vector<configuration::TenantOnDemand> tenants);
  /// Sets the tenants made on demand, after a change of those that are not saved. `tenants` has the
  /// saved ones too.
  void set_tenants(std::vector<configuration::TenantOnDemand> tenants) {
    tenants_ = std::move(tenants);
  }
  /// Restores the tenants of a revision. The set of saved tenants does not change: a saved tenant
  /// that the revision does not have stays saved, and is not in force.
  void restore_tenants(std::vector<configuration::TenantOnDemand> tenants);
  /// Drops the records of a tenant that comes or goes: that it was left out, and its
  /// sub-allocations.
  void forget(const std::string& tenant);

  const configuration::SubAllocations& own() const { return own_; }
  void set_own(configuration::SubAllocations own) { own_ = std::move(own); }
  /// Returns the sub-allocations that a tenant has made.
  configuration::SubAllocation own_of(const std::string& tenant) const;
  void set_own(const std::string& tenant, configuration::SubAllocation division);
  /// Drops the parts of tenants' sub-allocations that the operator's `changes` override.
  void forget_own(const std::vector<configuration::AllocationChange>& changes);
  /// Drops the parts of tenants' sub-allocations that `laid` has left out.
  void drop_undivided(const configuration::Overlaid& laid);

 private:
  Outcome read();
  std::string path() const { return folder_ + "/saved.json"; }

  configuration::Config file_;
  std::string folder_;
  std::vector<configuration::SavedRequest> saved_;
  std::vector<configuration::TenantOnDemand> tenants_;
  std::map<std::uint64_t, configuration::AllocationRefusal> left_out_;
  std::map<std::string, configuration::AllocationRefusal> absent_;
  std::string problem_;
  std::vector<std::string> skipped_;
  configuration::SubAllocations own_;
};

}  // namespace softhca::control
