// SPDX-License-Identifier: Apache-2.0

// The device tree of a tenant on the host, as frames for the agent.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>

#include "guest/channel/frame.hpp"
#include "guest/channel/outbox.hpp"

namespace softhca::guest {

/// Reads regular files, links that stay within the folder, and the names of sockets. Leaves out
/// hidden ones, those that are too large, and those beyond kMaxFiles.
class TreeSource {
 public:
  explicit TreeSource(std::string folder) : folder_(std::move(folder)) {}

  /// Sends all files anew, and then a kDone.
  void restart();
  /// Finds what has changed.
  void scan();
  /// Adds frames of what has changed, as far as the outbox has room.
  void send(Outbox& outbox);

 private:
  using Stamp = std::tuple<std::uint64_t, std::int64_t, std::int64_t>;  ///< inode, time, size
  struct Entry {
    FileKind kind = FileKind::kRegular;
    std::string content;
    Stamp stamp{};  ///< of the file; zeros: read it again
    bool is_found = false;
  };

  void scan_folder(const std::string& path, int depth);
  void scan_entry(const std::string& path, int depth);
  void scan_file(const std::string& path, const struct stat& found);
  void update(const std::string& path, FileKind kind, std::string content, Stamp stamp);

  std::string folder_;
  std::map<std::string, Entry> entries_;
  std::deque<std::string> changed_;
  bool done_is_due_ = false;
};

}  // namespace softhca::guest
