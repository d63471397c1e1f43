// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/reload/layers.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "daemon/base/system_error.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/configuration/schema/removed_keys.hpp"
#include "daemon/operate/reload/reload_json.hpp"

namespace softhca::control {
namespace {

using configuration::AllocationChange;
using configuration::SavedRequest;
using configuration::TenantOnDemand;

constexpr std::size_t kMostSavedBytes = std::size_t{1} << 20;
constexpr unsigned kVersion = 1;

Json to_json(const std::vector<SavedRequest>& saved, const std::vector<TenantOnDemand>& tenants) {
  Json requests = Json::array();
  for (const SavedRequest& request : saved) requests.push_back(control::to_json(request));
  Json made = Json::array();
  for (const TenantOnDemand& tenant : tenants)
    if (tenant.saved) made.push_back(control::to_json(tenant.request));
  return {{"version", kVersion}, {"requests", std::move(requests)}, {"tenants", std::move(made)}};
}

/// Returns a saved request without the changes of keys that only earlier versions had, and adds
/// why to `skipped`. May throw what reading a Json of the wrong shape throws.
Json without_removed_keys(Json request, std::vector<std::string>& skipped) {
  Json changes = Json::array();
  for (const Json& change : request.at("changes")) {
    const auto resource = change.at("resource").get<std::string>();
    if (const auto removal = configuration::removal_of("tenant", resource))
      skipped.push_back("saved request " + std::to_string(request.at("number").get<unsigned>()) +
                        " has a key that is skipped: " + resource + " " + *removal);
    else
      changes.push_back(change);
  }
  request["changes"] = std::move(changes);
  return request;
}

/// Returns the saved requests. May throw what reading a Json of the wrong shape throws.
Expected<std::vector<SavedRequest>> requests_of(const Json& document,
                                                std::vector<std::string>& skipped) {
  if (document.at("version").get<unsigned>() != kVersion)
    return Error{"another version of the daemon wrote it", EINVAL};
  std::vector<SavedRequest> saved;
  for (const Json& entry : document.at("requests")) {
    const Json request = without_removed_keys(entry, skipped);
    if (request.at("changes").empty()) continue;
    auto changes = changes_of(request, {});
    if (!changes) return changes.error();
    saved.push_back({entry.at("number").get<std::uint64_t>(), std::move(*changes)});
  }
  return saved;
}

/// Returns the saved tenants. May throw the same.
Expected<std::vector<TenantOnDemand>> tenants_of(const Json& list) {
  std::vector<TenantOnDemand> tenants;
  for (const Json& entry : list) {
    auto request = tenant_request_of(entry);
    if (!request) return request.error();
    tenants.push_back({std::move(*request), true});
  }
  return tenants;
}

Outcome write_whole(const std::string& path, const std::string& text) {
  ::unlink(path.c_str());  // a crash may have left a file
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return system_error(path);
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(file.get(), text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_error(path);
    done += static_cast<std::size_t>(n);
  }
  if (::fsync(file.get()) != 0) return system_error(path);
  return {};
}

}  // namespace

Layers::Layers(configuration::Config file, std::string folder)
    : file_(std::move(file)), folder_(std::move(folder)) {
  if (folder_.empty()) return;
  if (const auto done = read(); !done) problem_ = path() + ": " + done.error().message;
}

Layers::Layers(const ReloadState& earlier, std::string folder)
    : Layers(earlier.file, std::move(folder)) {
  tenants_ = earlier.on_demand;
  own_ = earlier.own;
  left_out_ = earlier.left_out;
  absent_ = earlier.absent;
}

Outcome Layers::read() {
  std::ifstream in(path(), std::ios::binary);
  if (!in && errno == ENOENT) return {};
  std::string text(kMostSavedBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || !in.eof()) return Error{"cannot be read", EIO};
  text.resize(static_cast<std::size_t>(in.gcount()));
  const Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) return Error{"is not JSON", EINVAL};
  try {
    auto saved = requests_of(document, skipped_);
    if (!saved) return saved.error();
    auto tenants = tenants_of(document.value("tenants", Json::array()));
    if (!tenants) return tenants.error();
    saved_ = std::move(*saved);
    tenants_ = std::move(*tenants);
    return {};
  } catch (const Json::exception& wrong) {
    return Error{wrong.what(), EINVAL};
  }
}

void Layers::adopt(const configuration::Config& file, const configuration::Overlaid& laid) {
  file_ = file;
  left_out_ = laid.left_out;
  absent_ = laid.absent;
  drop_undivided(laid);
  std::erase_if(own_,
                [&](const auto& own) { return find_tenant(laid.given, own.first) == nullptr; });
}

const TenantOnDemand* Layers::find(const std::string& tenant) const {
  for (const TenantOnDemand& each : tenants_)
    if (each.request.name == tenant) return &each;
  return nullptr;
}

configuration::Overlaid Layers::after_restart(const std::vector<SavedRequest>& saved,
                                              std::vector<TenantOnDemand> tenants) const {
  std::erase_if(tenants, [](const TenantOnDemand& tenant) { return !tenant.saved; });
  return lay_over(file_, tenants, saved, {});
}

void Layers::restore_tenants(std::vector<TenantOnDemand> tenants) {
  for (TenantOnDemand& tenant : tenants) {
    const TenantOnDemand* now = find(tenant.request.name);
    tenant.saved = now != nullptr && now->saved;
    absent_.erase(tenant.request.name);
  }
  for (const TenantOnDemand& now : tenants_) {
    const std::string& name = now.request.name;
    if (!now.saved || std::ranges::any_of(tenants, [&](const TenantOnDemand& tenant) {
          return tenant.request.name == name;
        }))
      continue;
    tenants.push_back(now);
    absent_.try_emplace(
        name, configuration::AllocationRefusal{
                  .who = "tenant " + name,
                  .message = "the revision in force after the rollback does not have it"});
  }
  tenants_ = std::move(tenants);
}

void Layers::forget(const std::string& tenant) {
  absent_.erase(tenant);
  own_.erase(tenant);
}

std::vector<SavedRequest> Layers::with(const std::vector<AllocationChange>& changes) const {
  std::vector<SavedRequest> saved = saved_;
  std::uint64_t number = 1;
  for (const SavedRequest& request : saved_) number = std::max(number, request.number + 1);
  supersede(saved, changes);
  saved.push_back({number, changes});
  return saved;
}

Outcome Layers::prepare(const std::vector<SavedRequest>& saved,
                        const std::vector<TenantOnDemand>& tenants, bool overwrite) const {
  if (folder_.empty())
    return Error{"cannot save: daemon.state_dir is not set; set it and restart", ENOENT};
  if (!problem_.empty() && !overwrite)
    return Error{"saving would overwrite the requests saved before: " + problem_ +
                     "; mend the file and restart, or discard it: softhcactl saved drop --all",
                 EINVAL};
  if (::mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) return system_error(folder_);
  const std::string text = to_json(saved, tenants).dump(2) + "\n";
  if (text.size() > kMostSavedBytes)
    return Error{"the saved requests exceed 1 MiB; drop some: softhcactl saved drop", ENOSPC};
  return write_whole(path() + ".new", text);
}

Outcome Layers::keep(std::vector<SavedRequest> saved, std::vector<TenantOnDemand> tenants) {
  if (::rename((path() + ".new").c_str(), path().c_str()) != 0) return system_error(path());
  saved_ = std::move(saved);
  tenants_ = std::move(tenants);
  problem_.clear();
  std::erase_if(left_out_, [&](const auto& left) {
    return std::ranges::find(saved_, left.first, &SavedRequest::number) == saved_.end();
  });
  const UniqueFd folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::fsync(folder.get()) != 0) return system_error(folder_);
  return {};
}

configuration::SubAllocation Layers::own_of(const std::string& tenant) const {
  const auto found = own_.find(tenant);
  return found != own_.end() ? *found->second : configuration::SubAllocation{};
}

void Layers::set_own(const std::string& tenant, configuration::SubAllocation division) {
  if (division.empty())
    own_.erase(tenant);
  else
    own_[tenant] = std::make_shared<const configuration::SubAllocation>(std::move(division));
}

void Layers::forget_own(const std::vector<AllocationChange>& changes) {
  const configuration::SubAllocations before = own_;
  for (const auto& [tenant, own] : before) {
    configuration::SubAllocation left = *own;
    take_out(left.changes, changes);
    if (left.changes.size() != own->changes.size()) set_own(tenant, std::move(left));
  }
}

void Layers::drop_undivided(const configuration::Overlaid& laid) {
  for (const auto& [tenant, why] : laid.undivided) own_.erase(tenant);
  for (const auto& [tenant, bare] : laid.without_amounts) own_[tenant] = bare;
}

}  // namespace softhca::control
