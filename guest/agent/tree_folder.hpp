// SPDX-License-Identifier: Apache-2.0

// The device tree that the relay sends, laid out in the tenant's folder of the guest.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"

namespace softhca::guest {

class TreeFolder {
 public:
  /// Makes the folder, and takes over what is there.
  Outcome open(const std::string& folder);
  const std::string& folder() const { return folder_; }

  /// Each takes a path that is_tree_path() allows; a link leads to a place in the tree. Returns
  /// false if the file cannot be written.
  bool write(const std::string& path, std::string_view content);
  bool link(const std::string& path, const std::string& target);
  void remove(const std::string& path);
  /// Keeps an entry that another object makes.
  void keep(const std::string& path) { present_.insert(path); }
  /// Removes all that has not been written or kept since open().
  void remove_others();

 private:
  UniqueFd open_parent(const std::string& path, std::string& name) const;
  bool put(const std::string& path, int folder, const std::string& staged, const std::string& name);

  std::string folder_;
  UniqueFd root_;
  std::set<std::string> present_;
};

}  // namespace softhca::guest
