#include "daemon/control/reload/layers.hpp"

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
#include "daemon/control/reload/reload_json.hpp"

namespace softhca::control {
namespace {

using resource::AllocationChange;
using resource::SavedRequest;

constexpr std::size_t kMostBytes = std::size_t{1} << 20;
constexpr unsigned kVersion = 1;

Json to_json(const std::vector<SavedRequest>& saved) {
  Json requests = Json::array();
  for (const SavedRequest& request : saved) requests.push_back(control::to_json(request));
  return {{"version", kVersion}, {"requests", std::move(requests)}};
}

/// May throw what reading a Json of the wrong shape throws.
Expected<std::vector<SavedRequest>> requests_of(const Json& document) {
  if (document.at("version").get<unsigned>() != kVersion)
    return Error{"it is of another version of the daemon", EINVAL};
  std::vector<SavedRequest> saved;
  for (const Json& entry : document.at("requests")) {
    auto changes = changes_of(entry, {});
    if (!changes) return changes.error();
    saved.push_back({entry.at("number").get<std::uint64_t>(), std::move(*changes)});
  }
  return saved;
}

Outcome write_whole(const std::string& path, const std::string& text) {
  ::unlink(path.c_str());  // what a crash left there
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

Layers::Layers(resource::Config file, std::string folder)
    : file_(std::move(file)), folder_(std::move(folder)) {
  if (folder_.empty()) return;
  if (const auto done = read(); !done) problem_ = path() + ": " + done.error().message;
}

Outcome Layers::read() {
  std::ifstream in(path(), std::ios::binary);
  if (!in && errno == ENOENT) return {};
  std::string text(kMostBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || !in.eof()) return Error{"cannot be read", EIO};
  text.resize(static_cast<std::size_t>(in.gcount()));
  const Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) return Error{"is no JSON", EINVAL};
  try {
    auto saved = requests_of(document);
    if (!saved) return saved.error();
    saved_ = std::move(*saved);
    return {};
  } catch (const Json::exception& wrong) {
    return Error{wrong.what(), EINVAL};
  }
}

void Layers::adopt(const resource::Config& file, const resource::Overlaid& laid) {
  file_ = file;
  left_out_ = laid.left_out;
  for (const auto& [tenant, why] : laid.undivided) own_.erase(tenant);
  std::erase_if(own_, [&](const auto& own) { return find_tenant(file, own.first) == nullptr; });
}

std::vector<SavedRequest> Layers::with(const std::vector<AllocationChange>& changes) const {
  std::vector<SavedRequest> saved = saved_;
  std::uint64_t number = 1;
  for (const SavedRequest& request : saved_) number = std::max(number, request.number + 1);
  supersede(saved, changes);
  saved.push_back({number, changes});
  return saved;
}

Outcome Layers::prepare(const std::vector<SavedRequest>& saved, bool overwrite) const {
  if (folder_.empty())
    return Error{"there is nowhere to save it; give daemon.state_dir and restart", ENOENT};
  if (!problem_.empty() && !overwrite)
    return Error{"what was saved before would be lost: " + problem_ +
                     "; mend the file and restart, or give it up: softhcactl saved drop --all",
                 EINVAL};
  if (::mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) return system_error(folder_);
  const std::string text = to_json(saved).dump(2) + "\n";
  if (text.size() > kMostBytes) return Error{"more is saved than there is room for", ENOSPC};
  return write_whole(path() + ".new", text);
}

Outcome Layers::keep(std::vector<SavedRequest> saved) {
  if (::rename((path() + ".new").c_str(), path().c_str()) != 0) return system_error(path());
  saved_ = std::move(saved);
  problem_.clear();
  std::erase_if(left_out_, [&](const auto& left) {
    return std::ranges::find(saved_, left.first, &SavedRequest::number) == saved_.end();
  });
  const UniqueFd folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder || ::fsync(folder.get()) != 0) return system_error(folder_);
  return {};
}

void Layers::add_own(const std::string& tenant, const std::vector<AllocationChange>& changes) {
  auto& own = own_[tenant];
  auto together = own != nullptr ? *own : std::vector<AllocationChange>{};
  for (const AllocationChange& change : changes) supersede(together, change);
  own = std::make_shared<const std::vector<AllocationChange>>(std::move(together));
}

void Layers::forget_own(const std::vector<AllocationChange>& changes) {
  for (auto& [tenant, own] : own_) {
    std::vector<SavedRequest> left{{0, *own}};
    supersede(left, changes);
    own = std::make_shared<const std::vector<AllocationChange>>(
        left.empty() ? std::vector<AllocationChange>{} : std::move(left.front().changes));
  }
  std::erase_if(own_, [](const auto& own) { return own.second->empty(); });
}

}  // namespace softhca::control
