// SPDX-License-Identifier: Apache-2.0

#include "guest/agent/region.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include "abi/session.hpp"
#include "daemon/base/system_error.hpp"

namespace softhca::guest {
namespace {

namespace fs = std::filesystem;

/// Reads a number as sysfs has it: 4096, or 0x1000.
std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::string text;
  if (!std::getline(std::ifstream(file), text)) return std::nullopt;
  char* end = nullptr;
  const std::uint64_t value = std::strtoull(text.c_str(), &end, 0);
  if (end == text.c_str()) return std::nullopt;
  return value;
}

/// Returns the first device of /dev by name; empty: /dev has none.
std::string first_device() {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry("/dev", error), end; !error && entry != end;
       entry.increment(error))
    if (entry->path().filename().string().starts_with("dax")) found.push_back(entry->path());
  return found.empty() ? "" : *std::ranges::min_element(found);
}

/// Returns the name of the region of the kernel that the device is in: "region0".
std::string region_of(const fs::path& device) {
  for (fs::path at = device; at.has_relative_path(); at = at.parent_path())
    if (at.filename().string().starts_with("region")) return at.filename();
  return "";
}

}  // namespace

Expected<Region> Region::open(const std::string& path, const std::string& sysfs) {
  const std::string there = path.empty() ? first_device() : path;
  if (there.empty())
    return Error{
        "no device /dev/dax*: make one of the machine's region with ndctl "
        "create-namespace --mode devdax --align 4096, or name the region with --region",
        ENOENT};
  Region region;
  region.fd_ = UniqueFd(::open(there.c_str(), O_RDWR | O_CLOEXEC));
  struct stat info;
  if (!region.fd_ || ::fstat(region.fd_.get(), &info) != 0) return system_error(there);
  region.device_ = info.st_dev;
  region.inode_ = info.st_ino;
  region.bytes_ = static_cast<std::uint64_t>(info.st_size);
  if (S_ISREG(info.st_mode)) return region;
  if (!S_ISCHR(info.st_mode))
    return Error{there + ": expected a device such as /dev/dax0.0, or a file", EINVAL};
  if (auto found = region.find_device(there, sysfs, info.st_rdev); !found) return found.error();
  return region;
}

/// Finds out where the device lies in the region.
Outcome Region::find_device(const std::string& path, const std::string& sysfs,
                            std::uint64_t number) {
  std::error_code error;
  const fs::path device = fs::canonical(
      sysfs + "/dev/char/" + std::to_string(major(number)) + ":" + std::to_string(minor(number)),
      error);
  const std::string region = region_of(device);
  const auto bytes = number_in(device / "size");
  const auto at = number_in(device / "resource");
  const auto region_at = number_in(sysfs + "/bus/nd/devices/" + region + "/resource");
  if (error || region.empty() || !bytes || !at || !region_at || *at < *region_at)
    return Error{path +
                     ": is not a device of persistent memory, or softhca-guest may not read its "
                     "place in " +
                     sysfs + "; run it as root",
                 EINVAL};
  if (const auto align = number_in(device / "align"); align && *align != abi::kPageBytes)
    return Error{path + ": has an alignment of " + std::to_string(*align) +
                     " bytes; make it anew "
                     "with ndctl create-namespace --mode devdax --align 4096",
                 EINVAL};
  begin_ = *at - *region_at;
  bytes_ = *bytes;
  return {};
}

Region::Region(Region&& other) noexcept
    : fd_(std::move(other.fd_)),
      begin_(other.begin_),
      bytes_(other.bytes_),
      device_(other.device_),
      inode_(other.inode_),
      place_(std::exchange(other.place_, {})),
      memory_(std::exchange(other.memory_, nullptr)) {}

Region::~Region() { unmap(); }

void Region::unmap() {
  if (memory_ != nullptr) ::munmap(memory_, place_.bytes);
  memory_ = nullptr;
  place_ = {};
}

Outcome Region::map(const abi::MemoryPlace& place) {
  if (place.offset == place_.offset && place.bytes == place_.bytes) return {};
  unmap();
  const bool is_inside = place.offset <= bytes_ && place.bytes <= bytes_ - place.offset;
  if (!is_inside || place.offset % abi::kPageBytes != 0 || place.bytes % abi::kPageBytes != 0)
    return Error{
        "the daemon has named memory that is not in the region: " + std::to_string(place.bytes) +
            " bytes from byte " + std::to_string(place.offset) + " of " + std::to_string(bytes_),
        EPROTO};
  if (place.bytes == 0) return {};
  void* const memory = ::mmap(nullptr, place.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(),
                              static_cast<off_t>(place.offset));
  if (memory == MAP_FAILED) return system_error("cannot map the region");
  memory_ = static_cast<std::byte*>(memory);
  place_ = place;
  return {};
}

void Region::zero(std::uint64_t offset, std::uint64_t bytes) {
  std::memset(memory_ + (offset - place_.offset), 0, bytes);
}

}  // namespace softhca::guest
