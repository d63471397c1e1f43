// SPDX-License-Identifier: Apache-2.0

#include "guest/agent/tree_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "daemon/base/system_error.hpp"
#include "guest/channel/frame.hpp"

namespace softhca::guest {
namespace {

namespace fs = std::filesystem;

/// Opens a folder below another one, and makes it if it is not there. Follows no link.
UniqueFd enter(int folder, const std::string& name) {
  constexpr int kFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  UniqueFd fd(::openat(folder, name.c_str(), kFlags));
  if (fd) return fd;
  ::unlinkat(folder, name.c_str(), 0);  // a file or link of an earlier tree
  ::mkdirat(folder, name.c_str(), 0755);
  return UniqueFd(::openat(folder, name.c_str(), kFlags));
}

bool write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written <= 0) return false;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

Outcome TreeFolder::open(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  root_ = UniqueFd(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root_) return system_error(folder);
  folder_ = folder;
  present_.clear();
  return {};
}

UniqueFd TreeFolder::open_parent(const std::string& path, std::string& name) const {
  UniqueFd at(::fcntl(root_.get(), F_DUPFD_CLOEXEC, 0));
  std::size_t begin = 0;
  for (std::size_t end; (end = path.find('/', begin)) != path.npos && at; begin = end + 1)
    at = enter(at.get(), path.substr(begin, end - begin));
  name = path.substr(begin);
  return at;
}

/// Puts a staged entry in its place, as programs may be reading the earlier one.
bool TreeFolder::put(const std::string& path, int folder, const std::string& staged,
                     const std::string& name) {
  if (::renameat(folder, staged.c_str(), folder, name.c_str()) != 0) {
    // An empty folder of an earlier tree.
    ::unlinkat(folder, name.c_str(), AT_REMOVEDIR);
    if (::renameat(folder, staged.c_str(), folder, name.c_str()) != 0) {
      ::unlinkat(folder, staged.c_str(), 0);
      return false;
    }
  }
  present_.insert(path);
  return true;
}

bool TreeFolder::write(const std::string& path, std::string_view content) {
  if (present_.size() >= kMaxFiles && !present_.contains(path)) return false;
  std::string name;
  const UniqueFd folder = open_parent(path, name);
  if (!folder) return false;
  const std::string staged = "." + name;
  const UniqueFd file(::openat(folder.get(), staged.c_str(),
                               O_CREAT | O_WRONLY | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file || !write_all(file.get(), content)) return false;
  return put(path, folder.get(), staged, name);
}

bool TreeFolder::link(const std::string& path, const std::string& target) {
  if (present_.size() >= kMaxFiles && !present_.contains(path)) return false;
  std::string name;
  const UniqueFd folder = open_parent(path, name);
  if (!folder) return false;
  const std::string staged = "." + name;
  ::unlinkat(folder.get(), staged.c_str(), 0);
  if (::symlinkat(target.c_str(), folder.get(), staged.c_str()) != 0) return false;
  return put(path, folder.get(), staged, name);
}

void TreeFolder::remove(const std::string& path) {
  std::string name;
  const UniqueFd folder = open_parent(path, name);
  if (folder) ::unlinkat(folder.get(), name.c_str(), 0);
  present_.erase(path);
}

void TreeFolder::remove_others() {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error))
    found.push_back(entry->path());
  std::ranges::reverse(found);  // what is in a folder comes before it
  for (const fs::path& path : found)
    if (!present_.contains(path.lexically_relative(folder_)))
      fs::remove(path, error);  // leaves folders that are not empty
}

}  // namespace softhca::guest
