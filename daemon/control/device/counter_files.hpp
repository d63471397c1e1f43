// The folders `counters` and `hw_counters` of the port in a device tree, as the kernel has them,
// for what reads those of any adapter: node_exporter, collectd, scripts. docs/metrics.md has the
// table.
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

/// Regular files, for the kernel alone can make figures as they are read. New figures are written
/// in a second copy of a folder, which then changes places with the first: so a program that opens
/// a file and reads it finds one figure or the next, all of a folder are of one moment, and files
/// are written over instead of replaced. (Renaming each over the one before takes ext4 1 to 4 ms,
/// as it writes the new one to the disk first; in its place, a reader could see some digits of
/// both.)
class CounterFiles {
 public:
  /// Of the tree below `root`. Makes the folders; update() makes the files.
  CounterFiles(const std::string& root, const std::string& device);

  /// Brings the folders up to date in which a figure has changed. Work is bounded, and nothing that
  /// readers do makes it wait. An error: which file; it is tried again with the next call.
  Outcome update(const engine::Tenant& tenant,
                 const std::vector<std::unique_ptr<engine::PortBinding>>& ports);

  /// Where the second copies are: beside the tree, so that a program that lists or copies that does
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
