// SPDX-License-Identifier: Apache-2.0

#include "cli/run/installed_libibverbs.hpp"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace softhca::cli {
namespace {

/// Returns the path of libibverbs; empty if there is none.
std::string path_of_libibverbs() {
  void* library = ::dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return "";
  const link_map* found = nullptr;
  std::string path;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &found) == 0) path = found->l_name;
  ::dlclose(library);
  return path;
}

/// Returns the number of the private interface, from the version of the symbols for providers,
/// which is among the library's strings. 0: there is none.
int interface_of(const std::string& path) {
  constexpr char kVersion[] = "IBVERBS_PRIVATE_";
  std::ifstream file(path, std::ios::binary);
  const std::string content(std::istreambuf_iterator<char>(file), {});
  const std::size_t at = content.find(kVersion);
  return at == std::string::npos ? 0 : std::atoi(content.c_str() + at + sizeof kVersion - 1);
}

}  // namespace

std::string why_no_provider(const std::vector<int>& interfaces) {
  const std::string path = path_of_libibverbs();
  const int number = path.empty() ? 0 : interface_of(path);
  if (number == 0 || std::find(interfaces.begin(), interfaces.end(), number) != interfaces.end())
    return "";
  std::string list;
  for (const int known : interfaces) list += (list.empty() ? "" : ", ") + std::to_string(known);
  return path + " loads providers for its private interface " + std::to_string(number) +
         ", softhca has those for " + list + ": programs with this libibverbs find no device.\n" +
         "  Install a softhca that supports this version of rdma-core, or run the program with a "
         "version that this one supports.";
}

}  // namespace softhca::cli
