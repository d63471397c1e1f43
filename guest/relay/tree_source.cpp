// SPDX-License-Identifier: Apache-2.0

#include "guest/relay/tree_source.hpp"

#include <sys/stat.h>
#include <time.h>

#include <filesystem>
#include <system_error>

#include "daemon/base/small_file.hpp"
#include "guest/channel/tree_path.hpp"

namespace softhca::guest {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxDepth = 16;
constexpr std::int64_t kSecond = 1'000'000'000;

std::int64_t nanoseconds(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

}  // namespace

void TreeSource::restart() {
  entries_.clear();
  changed_.clear();
  scan();
  done_is_due_ = true;
}

void TreeSource::scan() {
  for (auto& [path, entry] : entries_) entry.is_found = false;
  scan_folder("", 0);
  std::erase_if(entries_, [this](const auto& each) {
    if (each.second.is_found) return false;
    changed_.push_back(each.first);
    return true;
  });
}

/// `path`: relative, and empty for the tenant's folder.
void TreeSource::scan_folder(const std::string& path, int depth) {
  if (depth > kMaxDepth) return;
  std::error_code error;
  for (fs::directory_iterator entry(fs::path(folder_) / path, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    scan_entry(path.empty() ? name : path + "/" + name, depth);
  }
}

void TreeSource::scan_entry(const std::string& path, int depth) {
  struct stat found;
  const fs::path there = fs::path(folder_) / path;
  if (!is_tree_path(path) || ::lstat(there.c_str(), &found) != 0) return;
  if (S_ISDIR(found.st_mode)) return scan_folder(path, depth + 1);
  if (entries_.size() >= kMaxFiles && !entries_.contains(path)) return;
  if (S_ISREG(found.st_mode)) return scan_file(path, found);
  if (S_ISSOCK(found.st_mode) && is_socket_name(path)) update(path, FileKind::kSocket, "", {});
  if (!S_ISLNK(found.st_mode)) return;
  std::error_code error;
  const std::string target = fs::read_symlink(there, error);
  if (!error && is_inner_link(path, target)) update(path, FileKind::kLink, target, {});
}

void TreeSource::scan_file(const std::string& path, const struct stat& found) {
  const std::int64_t changed = nanoseconds(found.st_mtim);
  const Stamp stamp{found.st_ino, changed, found.st_size};
  const auto before = entries_.find(path);
  if (before != entries_.end() && before->second.stamp == stamp) {
    before->second.is_found = true;
    return;
  }
  auto content = read_small_file(fs::path(folder_) / path, kMaxFileBytes + 1);
  if (!content || content->size() > kMaxFileBytes) return;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  // A file that changes twice within the resolution of its time has the same stamp.
  const bool is_settled = changed < nanoseconds(now) - kSecond;
  update(path, FileKind::kRegular, std::move(*content), is_settled ? stamp : Stamp{});
}

void TreeSource::update(const std::string& path, FileKind kind, std::string content, Stamp stamp) {
  const auto [at, is_new] = entries_.try_emplace(path);
  Entry& entry = at->second;
  entry.is_found = true;
  entry.stamp = stamp;
  if (!is_new && entry.kind == kind && entry.content == content) return;
  entry.kind = kind;
  entry.content = std::move(content);
  changed_.push_back(path);
}

void TreeSource::send(Outbox& outbox) {
  while (outbox.has_room() && !changed_.empty()) {
    const std::string path = std::move(changed_.front());
    changed_.pop_front();
    const auto entry = entries_.find(path);
    const bool is_there = entry != entries_.end();
    const FileHead head{
        static_cast<std::uint32_t>(is_there ? entry->second.kind : FileKind::kRemoved),
        static_cast<std::uint32_t>(path.size())};
    const std::string_view content = is_there ? entry->second.content : std::string_view();
    outbox.add(FrameKind::kFile, 0,
               {bytes_of(head), std::as_bytes(std::span(path)), std::as_bytes(std::span(content))});
  }
  if (!done_is_due_ || !outbox.has_room() || !changed_.empty()) return;
  done_is_due_ = false;
  const FileHead head{static_cast<std::uint32_t>(FileKind::kDone), 0};
  outbox.add(FrameKind::kFile, 0, {bytes_of(head)});
}

}  // namespace softhca::guest
