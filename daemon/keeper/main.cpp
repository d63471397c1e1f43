// SPDX-License-Identifier: Apache-2.0

// softhcad: finds the library of the adapter, and keeps an adapter running.
#include <sys/resource.h>

#include <filesystem>
#include <string>
#include <utility>

#include "daemon/keeper/keeper.hpp"

namespace {

namespace fs = std::filesystem;
using softhca::keeper::Library;

constexpr char kName[] = "libsofthca-adapter.so";

/// Returns the library beside this program, as a build has it, or where a package has it.
std::optional<Library> find_library(std::string& looked) {
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path& path :
       {folder / kName, (folder / ".." / SOFTHCA_LIBDIR / "softhca" / kName).lexically_normal()}) {
    std::string why;
    if (auto library = Library::open(path, why)) return library;
    looked += (looked.empty() ? "" : "; ") + why;
  }
  return std::nullopt;
}

}  // namespace

int main(int argc, char** argv) {
  std::string looked;
  auto library = find_library(looked);
  if (!library) {
    softhca::keeper::report_failure("no library of the adapter (" + looked + ")");
    return 1;
  }
  // It holds a duplicate of each descriptor.
  rlimit most{};
  if (::getrlimit(RLIMIT_NOFILE, &most) == 0) {
    most.rlim_cur = most.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &most);
  }
  return softhca::keeper::Keeper(*std::move(library), argc, argv).run();
}
