// SPDX-License-Identifier: Apache-2.0

// The file of the Container Device Interface, <runtime_dir>/cdi.json. By it container engines give
// a container the device of a tenant by name, softhca.io/tenant=NAME. The device plugin for
// Kubernetes takes mounts and environment from it. It lies in the daemon's own folder, since
// engines trust the file as they trust root (docs/security.md).
#pragma once

#include <string>
#include <vector>

#include "daemon/base/expected.hpp"

namespace softhca::control {

/// What the file tells.
struct CdiDescription {
  std::string runtime_dir;
  /// Folder of the host with libibverbs/ and softhca/, where package softhca-provider has its
  /// libraries.
  std::string libraries;
  std::vector<std::string> tenants;
};

std::string cdi_file_of(const std::string& runtime_dir);

/// Puts a new file in place of the present one. Names that the interface does not permit, such as
/// "_a", are left out. Without a tenant the file is removed, as the interface requires a device.
/// Error: the provider is missing, or the file cannot be written. Then the file is removed, too.
Outcome write_cdi_file(const CdiDescription& description);

}  // namespace softhca::control
