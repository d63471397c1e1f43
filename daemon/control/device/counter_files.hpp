// The folders `counters` and `hw_counters` of the port in a device tree, as the kernel has them,
// for programs that read those of any adapter: node_exporter, collectd, scripts. docs/metrics.md
// has the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/engine/port_counters.hpp"

namespace softhca::control {

/// Regular files, since only the kernel can make up figures as they are read. New figures are
/// written in a second copy of a folder, which then changes places with the first: a program that
/// opens a file and reads it finds one figure or the next, all figures of a folder are of one
/// moment, and files are written over instead of replaced. (Renaming each file over the one before
/// takes ext4 1 to 4 ms, as it writes the new one to the disk first; writing in place could show a
/// reader some digits of both.)
class CounterFiles {
 public:
  /// Makes the folders in the tree below `root`; update() makes the files.
  CounterFiles(const std::string& root, const std::string& device);

  /// Brings the folders in which a figure has changed up to date. The work is bounded, and readers
  /// cannot make it wait. Errors name the file; the next call tries it again.
  Outcome update(const engine::Tenant& tenant,
                 const std::vector<std::unique_ptr<engine::PortBinding>>& ports);

  /// Where the second copies are: beside the tree, so that programs that list or copy the tree do
  /// not meet them.
  static std::string staged_in(const std::string& tenant_folder);

 private:
  struct File {
    std::optional<std::uint64_t> figure;  ///< in it; none: not known
    bool own = false;                     ///< no link to the one of all that are 0
  };
  struct Copy {
    std::string path;
    std::vector<File> files;
  };
  struct Folder {
    Copy shown, staged;
  };
  static Copy make_copy(const std::string& path, std::size_t kind, const std::string& zero);
  static Outcome show(Folder& folder, const std::vector<std::uint64_t>& figures, std::size_t kind);
  static bool write(const std::string& path, File& file, std::uint64_t figure);

  std::vector<Folder> folders_;
};

}  // namespace softhca::control
