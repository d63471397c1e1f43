// SPDX-License-Identifier: Apache-2.0

// The folders `counters` and `hw_counters` of the port in a device tree, as the kernel has them.
// They are for programs that read those of any adapter: node_exporter, collectd, scripts.
// docs/metrics.md has the table.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/engine/ports/port_binding.hpp"
#include "daemon/engine/records/tenant.hpp"

namespace softhca::control {

/// Regular files, since only the kernel can generate figures on reading. update() writes new
/// figures to a second copy of a folder, and then exchanges the two copies. A program that opens
/// and reads a file gets the old figure or the new one. All figures of a folder are of one moment.
/// Files are overwritten, not replaced. Renaming each file over its predecessor takes ext4 1 to 4
/// ms, as it first writes the new file to the disk. Writing in place could show a reader digits of
/// both figures.
class CounterFiles {
 public:
  /// Makes the folders in the tree below `root`; update() makes the files.
  CounterFiles(const std::string& root, const std::string& device);

  /// Updates the folders in which a figure has changed. The work is bounded, and readers cannot
  /// delay it. Errors name the file; the next call tries again.
  Outcome update(const engine::Tenant& tenant,
                 const std::vector<std::unique_ptr<engine::PortBinding>>& ports);

  /// Returns the folder of the second copies. It lies beside the tree, so that programs that list
  /// or copy the tree do not find it.
  static std::string staged_in(const std::string& tenant_folder);

 private:
  struct File {
    std::optional<std::uint64_t> figure;  ///< the figure in the file; nothing: unknown
    bool own = false;  ///< a file of its own, not a link to the shared file that holds 0
  };
  struct Copy {
    std::string path;
    std::vector<File> files;
  };
  struct Folder {
    Copy shown, staged;
  };
  /// The figures of one folder, by the names of their files.
  using Figures = std::vector<std::pair<const char*, std::uint64_t>>;
  static std::array<Figures, 2> figures_of(
      const engine::Tenant& tenant, const std::vector<std::unique_ptr<engine::PortBinding>>& ports);
  static Copy make_copy(const std::string& path, const Figures& figures, const std::string& zero);
  static Outcome show(Folder& folder, const Figures& figures);
  static bool write(const std::string& path, File& file, std::uint64_t figure);

  std::vector<Folder> folders_;
};

}  // namespace softhca::control
