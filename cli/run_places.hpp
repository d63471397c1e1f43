// SPDX-License-Identifier: Apache-2.0

// Finds what softhca-run needs: the daemon's runtime directory, a tenant in it, and the libraries.
#pragma once

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "abi/version.hpp"

namespace softhca::cli {

struct Failure {
  std::string message;  ///< for the user
};
template <typename Value>
using Found = std::variant<Value, Failure>;

/// Finds the daemon's runtime directory: `option` (if not empty), else $SOFTHCA_RUNTIME_DIR, else
/// $RUNTIME_DIRECTORY. Otherwise it is the first of /run/softhca, $XDG_RUNTIME_DIR/softhca and
/// /tmp/softhca-UID (if the user owns it) that has a tenant open to the caller. If none has one, it
/// is the first that exists.
Found<std::filesystem::path> find_runtime_directory(const std::string& option);

/// Returns the tenants with a device tree and an open socket, sorted by name.
std::vector<std::string> tenants_of(const std::filesystem::path& runtime_directory);

/// Finds the tenant: `option`, else $SOFTHCA_TENANT, else the first open one by name. A failure
/// gives the reason: permissions and owner of the socket, or that no daemon listens on it.
Found<std::string> find_tenant(const std::filesystem::path& runtime_directory,
                               const std::string& option);

/// Finds the daemon's program: beside this program in a build tree, else where it is installed,
/// else on $PATH.
Found<std::filesystem::path> find_daemon();
/// Likewise softhca-run.
Found<std::filesystem::path> find_softhca_run();
/// Likewise softhca-bench, which measures a device.
Found<std::filesystem::path> find_bench();

/// Returns the reason why the daemon does not serve a provider that speaks `provider`: its device
/// tree in the tenant's folder states which versions of the protocol the daemon speaks. Empty: it
/// does, or the tree does not state it.
std::string why_not_served(const std::filesystem::path& tenant_folder,
                           abi::VersionRange provider = abi::kSpokenVersions);

struct Libraries {
  std::filesystem::path provider;  ///< without "-rdmavNN.so", as libibverbs expects
  std::filesystem::path preload;
  std::vector<int> interfaces;  ///< numbers NN of the private interfaces that have a provider
};

/// Finds the libraries: beside this program in a build tree, else where they are installed.
Found<Libraries> find_libraries();

}  // namespace softhca::cli
