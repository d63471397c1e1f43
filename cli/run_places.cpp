#include "cli/run_places.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace softhca::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kProvider[] = "libsofthca";
constexpr char kProviderSuffix[] = "-rdmav34.so";
constexpr char kPreload[] = "libsofthca-preload.so";

/// Empty when unset.
std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool directory_exists(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool file_exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

/// Anybody may make a directory in /tmp.
bool is_own_directory(const fs::path& path) {
  struct stat found;
  return ::lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == ::getuid();
}

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

Found<fs::path> find_runtime_directory(const std::string& option) {
  std::string given = option;
  if (given.empty()) given = variable("SOFTHCA_RUNTIME_DIR");
  if (given.empty()) {
    given = variable("RUNTIME_DIRECTORY");
    given.resize(std::min(given.size(), given.find(':')));  // systemd may name several
  }
  if (!given.empty()) {
    if (directory_exists(given)) return fs::absolute(given);
    return Failure{"there is no runtime directory " + given + "; is softhcad running?"};
  }
  const std::string user = variable("XDG_RUNTIME_DIR");
  const fs::path temporary = "/tmp/softhca-" + std::to_string(::getuid());
  if (directory_exists("/run/softhca")) return fs::path("/run/softhca");
  if (!user.empty() && directory_exists(user + "/softhca")) return fs::path(user + "/softhca");
  if (is_own_directory(temporary)) return temporary;
  return Failure{"no runtime directory of softhcad found (/run/softhca" +
                 (user.empty() ? "" : ", " + user + "/softhca") + ", " + temporary.string() +
                 "); is it running? Name another with --runtime-dir"};
}

std::vector<std::string> tenants_of(const fs::path& runtime_directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(runtime_directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (directory_exists(entry->path() / "sysfs" / "class"))
      names.push_back(entry->path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Found<std::string> find_tenant(const fs::path& runtime_directory, const std::string& option) {
  const std::string wanted = option.empty() ? variable("SOFTHCA_TENANT") : option;
  const std::vector<std::string> names = tenants_of(runtime_directory);
  const std::string there =
      names.empty() ? "there is none open to you" : "there is " + list_of(names);
  const std::string place = " in " + runtime_directory.string();
  if (!wanted.empty()) {
    if (std::find(names.begin(), names.end(), wanted) != names.end()) return wanted;
    // Not listed where the directory may be entered but not read.
    const bool plain = wanted.find('/') == std::string::npos && wanted[0] != '.';
    if (plain && directory_exists(runtime_directory / wanted / "sysfs" / "class")) return wanted;
    return Failure{"no tenant " + wanted + place + " (" + there + ")"};
  }
  if (names.empty()) return Failure{"no tenant" + place + " is open to you; is softhcad running?"};
  if (names.size() > 1) return Failure{"which tenant? Say --tenant; " + there + place};
  return names.front();
}

Found<Libraries> find_libraries() {
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  struct Place {
    fs::path provider;
    fs::path preload;
  };
  const fs::path build = here / ".." / "libverbs-provider";
  const fs::path beside = here / ".." / SOFTHCA_LIBDIR;
  const fs::path configured = fs::path(SOFTHCA_PREFIX) / SOFTHCA_LIBDIR;
  const Place places[] = {{build, build / "preload"},
                          {beside / "libibverbs", beside / "softhca"},
                          {configured / "libibverbs", configured / "softhca"}};
  std::string tried;
  for (const Place& place : places) {
    const fs::path provider = (place.provider / kProvider).lexically_normal();
    const fs::path preload = (place.preload / kPreload).lexically_normal();
    if (file_exists(provider.string() + kProviderSuffix) && file_exists(preload)) {
      return Libraries{provider, preload};
    }
    tried += "\n  " + provider.string() + kProviderSuffix + " and " + preload.string();
  }
  return Failure{"the provider is not installed; looked for" + tried};
}

}  // namespace softhca::cli
