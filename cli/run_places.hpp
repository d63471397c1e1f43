// Where softhca-run finds things: the daemon's runtime directory, a tenant in it, our libraries.
#pragma once

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

namespace softhca::cli {

struct Failure {
  std::string message;  ///< for the user
};
template <typename Value>
using Found = std::variant<Value, Failure>;

/// `option` (if not empty), else $SOFTHCA_RUNTIME_DIR, else $RUNTIME_DIRECTORY, else the first with
/// a tenant open to the caller of /run/softhca, $XDG_RUNTIME_DIR/softhca, /tmp/softhca-UID (if it
/// is the user's own), or, where none has, the first that exists.
Found<std::filesystem::path> find_runtime_directory(const std::string& option);

/// Tenants with a device tree and a socket that can be connected to, sorted by name.
std::vector<std::string> tenants_of(const std::filesystem::path& runtime_directory);

/// `option`, else $SOFTHCA_TENANT, else the only one there is. The failure says why there is none:
/// permissions and owner of the socket, or nobody behind it.
Found<std::string> find_tenant(const std::filesystem::path& runtime_directory,
                               const std::string& option);

struct Libraries {
  std::filesystem::path provider;  ///< without "-rdmavNN.so", as libibverbs wants it
  std::filesystem::path preload;
  std::vector<int> interfaces;  ///< numbers NN of private interfaces for which there is a provider
};

/// Beside this program in a build tree, else where they are installed.
Found<Libraries> find_libraries();

}  // namespace softhca::cli
