// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/device_tree/cdi_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "daemon/frontend/unix/device_tree/device_tree.hpp"

namespace softhca::control {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr const char* kCdiVersion = "0.3.0";  // the lowest that has all that the file uses
constexpr const char* kCdiKind = "softhca.io/tenant";
// In the container.
constexpr const char* kContainerLibraries = "/opt/softhca";
constexpr const char* kProviderName = "libsofthca";
constexpr const char* kPreloadName = "libsofthca-preload.so";

/// True if the interface permits the name of a tenant as the name of a device: it begins and ends
/// with a letter or digit.
bool is_device_name(const std::string& tenant) {
  const auto bare = [](char c) { return c != '_' && c != '-'; };
  return !tenant.empty() && bare(tenant.front()) && bare(tenant.back());
}

OrderedJson read_only_mount(const fs::path& host, const fs::path& inside) {
  return {{"hostPath", host.string()},
          {"containerPath", inside.string()},
          {"options", {"bind", "ro", "nosuid", "nodev"}}};
}

/// Returns the device tree at the same path as on the host, as it names the tenant's socket by that
/// path. Connecting to a socket does not need a writable mount.
OrderedJson device_entry(const std::string& tenant, const std::string& runtime_dir) {
  const std::string folder = runtime_dir + "/" + tenant;
  const std::string tree = folder + "/sysfs";
  const std::string provider = std::string(kContainerLibraries) + "/" + kProviderName;
  const std::string preload = std::string(kContainerLibraries) + "/" + kPreloadName;
  const OrderedJson environment = {"SOFTHCA_TENANT=" + tenant, "SOFTHCA_RUNTIME_DIR=" + runtime_dir,
                                   "SOFTHCA_SYSFS=" + tree,    "SYSFS_PATH=" + tree,
                                   "LD_PRELOAD=" + preload,    "IBV_DRIVERS=" + provider,
                                   "RDMAV_DRIVERS=" + provider};
  return {
      {"name", tenant},
      {"containerEdits",
       {{"env", environment}, {"mounts", OrderedJson::array({read_only_mount(folder, folder)})}}}};
}

/// Returns the provider for each private interface of libibverbs, and the preload library.
Expected<std::vector<fs::path>> provider_libraries(const std::string& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  const fs::path providers = fs::path(folder) / "libibverbs";
  for (fs::directory_iterator entry(providers, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.starts_with(std::string(kProviderName) + "-rdmav") && name.ends_with(".so"))
      found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end());
  const fs::path preload = fs::path(folder) / "softhca" / kPreloadName;
  if (found.empty() || !fs::is_regular_file(preload, error))
    return Error{providers.string() + " has no provider, or " + preload.string() + " is missing" +
                     "; install softhca-provider, or name its folder with --libraries",
                 ENOENT};
  found.push_back(preload);
  return found;
}

Outcome put_in_place(const std::string& path, const std::string& text) {
  const std::string staged = path + ".new";
  int code = write_file(staged, text);
  std::error_code error;
  if (code == 0) {
    fs::rename(staged, path, error);
    code = error.value();
  }
  if (code == 0) return {};
  fs::remove(staged, error);
  return Error{"cannot write " + path + ": " + std::strerror(code), code};
}

}  // namespace

std::string cdi_file_of(const std::string& runtime_dir) { return runtime_dir + "/cdi.json"; }

Outcome write_cdi_file(const CdiDescription& description) {
  const std::string path = cdi_file_of(description.runtime_dir);
  OrderedJson devices = OrderedJson::array();
  for (const std::string& tenant : description.tenants)
    if (is_device_name(tenant)) devices.push_back(device_entry(tenant, description.runtime_dir));
  const auto libraries = provider_libraries(description.libraries);
  Outcome written;
  if (libraries && !devices.empty()) {
    OrderedJson mounts = OrderedJson::array();
    for (const fs::path& each : *libraries)
      mounts.push_back(read_only_mount(each, kContainerLibraries / each.filename()));
    const OrderedJson file = {{"cdiVersion", kCdiVersion},
                              {"kind", kCdiKind},
                              {"devices", devices},
                              {"containerEdits", {{"mounts", mounts}}}};
    written = put_in_place(path, file.dump(2) + "\n");
    if (written) return written;
  }
  std::error_code error;
  fs::remove(path, error);
  return libraries ? written : Outcome(libraries.error());
}

}  // namespace softhca::control
