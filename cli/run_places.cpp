// SPDX-License-Identifier: Apache-2.0

#include "cli/run_places.hpp"

#include <endian.h>
#include <grp.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

namespace softhca::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kProvider[] = "libsofthca";
constexpr char kPreload[] = "libsofthca-preload.so";

/// Returns the value of an environment variable; empty if it is not set.
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

/// True if the caller owns the directory, as any user may make a directory in /tmp.
bool is_own_directory(const fs::path& path) {
  struct stat found;
  return ::lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == ::getuid();
}

/// Returns 0 if a daemon accepts connections to the tenant with this folder, else an errno value.
int connect_error(const fs::path& folder) {
  const std::string path = folder / "socket";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return ENAMETOOLONG;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno;
  int error = 0;
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    error = errno == EAGAIN ? 0 : errno;  // it exists, but is busy
  ::close(fd);
  return error;
}

/// True if the folder has a device tree and a daemon that accepts connections of the caller.
bool is_open(const fs::path& folder) {
  return directory_exists(folder / "sysfs" / "class") && connect_error(folder) == 0;
}

/// Replaces the owner by the user and the group of the access control list, if the file has one: a
/// daemon without root permits them so. Returns false if it has none.
bool read_access_list(const std::string& path, struct stat& found) {
  std::array<std::byte, 1024> value;
  const ssize_t bytes =
      ::getxattr(path.c_str(), "system.posix_acl_access", value.data(), value.size());
  if (bytes < 0) return false;
  posix_acl_xattr_entry entry;
  for (std::size_t at = sizeof(posix_acl_xattr_header);
       at + sizeof entry <= static_cast<std::size_t>(bytes); at += sizeof entry) {
    std::memcpy(&entry, value.data() + at, sizeof entry);
    if (le16toh(entry.e_tag) == ACL_USER) found.st_uid = le32toh(entry.e_id);
    if (le16toh(entry.e_tag) == ACL_GROUP) found.st_gid = le32toh(entry.e_id);
  }
  return true;
}

std::string owner_text(const std::string& path, struct stat found) {
  const bool listed = read_access_list(path, found);
  const passwd* user = ::getpwuid(found.st_uid);
  const std::string owner = user != nullptr ? user->pw_name : std::to_string(found.st_uid);
  const group* members = ::getgrgid(found.st_gid);
  const std::string group = members != nullptr ? members->gr_name : std::to_string(found.st_gid);
  char mode[8];
  std::snprintf(mode, sizeof mode, "%04o", static_cast<unsigned>(found.st_mode & 07777));
  return "owner " + owner + ":" + group + ", mode " + mode +
         (listed ? ", by an access control list" : "");
}

/// Returns the reason why the tenant is not open; empty if the tenant does not exist.
std::string why_closed(const fs::path& folder) {
  const std::string socket = folder / "socket";
  const int error = connect_error(folder);
  struct stat found;
  if (error == EACCES)
    return socket + ": permission denied" +
           (::stat(socket.c_str(), &found) == 0 ? "; " + owner_text(socket, found) : "");
  if (!directory_exists(folder / "sysfs") && !file_exists(socket)) return "";
  if (error == 0) return folder.string() + " has no device tree; restart softhcad";
  return "no daemon listens on " + socket + "; check that softhcad is running";
}

std::string why_all_closed(const fs::path& runtime_directory) {
  std::vector<std::string> reasons;
  std::error_code error;
  for (fs::directory_iterator entry(runtime_directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string why = why_closed(entry->path());
    if (!why.empty()) reasons.push_back(why);
  }
  std::sort(reasons.begin(), reasons.end());
  std::string text;
  for (const std::string& reason : reasons) text += (text.empty() ? "" : "\n  ") + reason;
  return text;
}

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// Returns the numbers NN of all files PROVIDER-rdmavNN.so, sorted.
std::vector<int> interfaces_of(const fs::path& provider) {
  const std::string pattern = provider.filename().string() + "-rdmav%d.so%n";
  std::vector<int> numbers;
  std::error_code error;
  for (fs::directory_iterator entry(provider.parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    int number = 0;
    int length = 0;
    if (std::sscanf(name.c_str(), pattern.c_str(), &number, &length) == 1 &&
        static_cast<std::size_t>(length) == name.size())
      numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

bool is_program(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && ::access(path.c_str(), X_OK) == 0;
}

/// Returns the first of these paths, relative to the folder of this program or absolute, that is a
/// program; else the program of this name on $PATH.
Found<fs::path> find_program(const std::vector<fs::path>& paths, const std::string& package) {
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path name = paths.front().filename();
  std::string tried;
  fs::path last;
  for (const fs::path& path : paths) {
    const fs::path program = (here / path).lexically_normal();
    if (is_program(program)) return program;
    // Not the folder of a build tree where there is none, nor twice what is installed.
    if (program != last && directory_exists(program.parent_path()))
      tried += "\n  " + program.string();
    last = program;
  }
  std::istringstream folders(variable("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');)
    if (is_program(fs::path(folder) / name)) return fs::absolute(fs::path(folder) / name);
  return Failure{name.string() + " is not installed; install package " + package +
                 ", or put it on PATH; looked for" + tried + "\n  " + name.string() + " on PATH"};
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
    return Failure{"no runtime directory " + given + "; check that softhcad is running"};
  }
  const std::string user = variable("XDG_RUNTIME_DIR");
  const fs::path temporary = "/tmp/softhca-" + std::to_string(::getuid());
  std::vector<fs::path> places;
  if (directory_exists("/run/softhca")) places.push_back("/run/softhca");
  if (!user.empty() && directory_exists(user + "/softhca")) places.push_back(user + "/softhca");
  if (is_own_directory(temporary)) places.push_back(temporary);
  for (const fs::path& place : places)
    if (!tenants_of(place).empty()) return place;
  if (!places.empty()) return places.front();
  return Failure{"no daemon found: no runtime directory in /run/softhca" +
                 (user.empty() ? "" : ", " + user + "/softhca") + " or " + temporary.string() +
                 "; start softhcad, or name its directory with --runtime-dir"};
}

std::vector<std::string> tenants_of(const fs::path& runtime_directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(runtime_directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (is_open(entry->path())) names.push_back(entry->path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Found<std::string> find_tenant(const fs::path& runtime_directory, const std::string& option) {
  const std::string wanted = option.empty() ? variable("SOFTHCA_TENANT") : option;
  const std::vector<std::string> names = tenants_of(runtime_directory);
  if (!wanted.empty()) {
    // It may be missing in the list if the directory may be entered but not read.
    const bool plain = wanted.find('/') == std::string::npos && wanted[0] != '.';
    if (plain && is_open(runtime_directory / wanted)) return wanted;
    const std::string why = plain ? why_closed(runtime_directory / wanted) : "";
    if (!why.empty()) return Failure{why};
    return Failure{"no tenant " + wanted + " in " + runtime_directory.string() +
                   (names.empty() ? "; check that softhcad is running"
                                  : "; you may use " + list_of(names) + " there")};
  }
  if (!names.empty()) return names.front();
  const std::string reasons = why_all_closed(runtime_directory);
  return Failure{reasons.empty() ? "no tenant in " + runtime_directory.string() +
                                       "; check that softhcad is running"
                                 : reasons};
}

Found<fs::path> find_daemon() {
  return find_program({"../daemon/softhcad", "../" SOFTHCA_SBINDIR "/softhcad",
                       SOFTHCA_PREFIX "/" SOFTHCA_SBINDIR "/softhcad"},
                      "softhca");
}

Found<fs::path> find_softhca_run() {
  return find_program({"softhca-run", SOFTHCA_PREFIX "/" SOFTHCA_BINDIR "/softhca-run"},
                      "softhca-provider");
}

Found<fs::path> find_bench() {
  return find_program(
      {"../bench/verbs/softhca-bench", "../" SOFTHCA_LIBDIR "/softhca/softhca-bench",
       SOFTHCA_PREFIX "/" SOFTHCA_LIBDIR "/softhca/softhca-bench"},
      "softhca-tools");
}

std::string why_not_served(const fs::path& tenant_folder, abi::VersionRange provider) {
  std::error_code error;
  for (fs::directory_iterator entry(tenant_folder / "sysfs/class/infiniband", error), end;
       !error && entry != end; entry.increment(error)) {
    std::ifstream file(entry->path() / "softhca_protocol");
    abi::VersionRange daemon{};
    if (!(file >> daemon.oldest >> daemon.newest)) continue;
    if (abi::choose_version(daemon, provider) != 0) return "";
    char why[abi::kMismatchBytes];
    abi::explain_mismatch(daemon, provider, why);
    return "tenant " + tenant_folder.filename().string() + ": " + why;
  }
  return "";
}

Found<Libraries> find_libraries() {
  struct Place {
    fs::path provider;
    fs::path preload;
  };
  std::vector<Place> places;
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (!error) {
    const fs::path build = here / ".." / "libverbs-provider";
    const fs::path beside = here / ".." / SOFTHCA_LIBDIR;
    places = {{build, build / "preload"}, {beside / "libibverbs", beside / "softhca"}};
  }
  const fs::path configured = fs::path(SOFTHCA_PREFIX) / SOFTHCA_LIBDIR;
  places.push_back({configured / "libibverbs", configured / "softhca"});
  std::string tried;
  for (const Place& place : places) {
    const fs::path provider = (place.provider / kProvider).lexically_normal();
    const fs::path preload = (place.preload / kPreload).lexically_normal();
    std::vector<int> interfaces = interfaces_of(provider);
    if (!interfaces.empty() && file_exists(preload))
      return Libraries{provider, preload, std::move(interfaces)};
    tried += "\n  " + provider.string() + "-rdmav*.so and " + preload.string();
  }
  return Failure{(error ? "/proc is not mounted, so softhca-run cannot find the provider beside "
                          "itself; looked only for"
                        : "the provider is not installed; looked for") +
                 tried};
}

}  // namespace softhca::cli
