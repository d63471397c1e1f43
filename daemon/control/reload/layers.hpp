// The configuration file that is in force and what lies over it: tenants made on demand and
// changes, which are kept in a file of their own as far as they are saved, and tenants' own
// changes, which last as long as the daemon runs. Belongs to the control thread.
//
// <state_dir>/saved.json is written anew for each change: beside it, to the disk, and then in its
// place, so that it is whole after a crash.
#pragma once

#include <string>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/resource/overlay.hpp"

namespace softhca::control {

class Layers {
 public:
  /// Reads what was saved in `folder`; empty: nothing can be saved.
  explicit Layers(resource::Config file, std::string folder = {});

  /// What is to be in force over `file`.
  resource::Overlaid over(const resource::Config& file, const resource::Held& held = {}) const {
    return lay_over(file, tenants_, saved_, own_, held);
  }
  /// `file` is in force, with what lies over it.
  void adopt(const resource::Config& file, const resource::Overlaid& laid);

  const resource::Config& file() const { return file_; }
  const std::vector<resource::SavedRequest>& saved() const { return saved_; }
  /// Saved requests that are not in force, and why.
  const std::map<std::uint64_t, resource::AllocationRefusal>& left_out() const { return left_out_; }
  const std::vector<resource::TenantOnDemand>& tenants() const { return tenants_; }
  /// Null: none of that name was made on demand.
  const resource::TenantOnDemand* find(const std::string& tenant) const;
  /// Tenants made on demand that are not in force, and why.
  const std::map<std::string, resource::AllocationRefusal>& absent() const { return absent_; }
  /// What is wrong with the file of saved changes; empty: nothing.
  const std::string& problem() const { return problem_; }

  /// Saved changes with one more request; nothing is written. Its number is that of the last one.
  std::vector<resource::SavedRequest> with(
      const std::vector<resource::AllocationChange>& changes) const;
  /// What a restart would leave of `tenants`, and of `saved`.
  resource::Overlaid after_restart(const std::vector<resource::SavedRequest>& saved,
                                   std::vector<resource::TenantOnDemand> tenants) const;
  /// Writes what is to be saved beside the file, in a folder that is made if need be. Errors: there
  /// is no folder, or the file that is there cannot be read and `overwrite` is false; it cannot be
  /// written.
  Outcome prepare(const std::vector<resource::SavedRequest>& saved, bool overwrite = false) const {
    return prepare(saved, tenants_, overwrite);
  }
  Outcome prepare(const std::vector<resource::SavedRequest>& saved,
                  const std::vector<resource::TenantOnDemand>& tenants,
                  bool overwrite = false) const;
  /// Puts what was prepared in place of the file. Errors: the file is as before, or may be after a
  /// crash of the machine.
  Outcome keep(std::vector<resource::SavedRequest> saved) {
    return keep(std::move(saved), tenants_);
  }
  Outcome keep(std::vector<resource::SavedRequest> saved,
               std::vector<resource::TenantOnDemand> tenants);
  /// What is not saved of tenants made on demand has changed. Those that are saved are there.
  void set_tenants(std::vector<resource::TenantOnDemand> tenants) { tenants_ = std::move(tenants); }
  /// Tenants are as in a revision, but saved as they are now: one that is saved and was not there
  /// then is not in force.
  void restore_tenants(std::vector<resource::TenantOnDemand> tenants);
  /// Forgets what is said of a tenant that comes or goes: that it was left out, and how it divided
  /// what it had.
  void forget(const std::string& tenant);

  const resource::OwnDivisions& own() const { return own_; }
  void set_own(resource::OwnDivisions own) { own_ = std::move(own); }
  /// How a tenant has divided what it has.
  resource::OwnDivision own_of(const std::string& tenant) const;
  void set_own(const std::string& tenant, resource::OwnDivision division);
  /// The operator has said something else.
  void forget_own(const std::vector<resource::AllocationChange>& changes);

 private:
  Outcome read();
  std::string path() const { return folder_ + "/saved.json"; }

  resource::Config file_;
  std::string folder_;
  std::vector<resource::SavedRequest> saved_;
  std::vector<resource::TenantOnDemand> tenants_;
  std::map<std::uint64_t, resource::AllocationRefusal> left_out_;
  std::map<std::string, resource::AllocationRefusal> absent_;
  std::string problem_;
  resource::OwnDivisions own_;
};

}  // namespace softhca::control
