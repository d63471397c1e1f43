// SPDX-License-Identifier: Apache-2.0

// The kernel's list of this process's mappings, read anew each time. Allocates nothing: it also
// runs in a new forked child, and while allocators hold their locks.
//
// Linux 6.11 and later have a query for the mapping at an address. Older kernels only have the list
// as text, which is read from its start. There a query costs more, the more mappings are below the
// address.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libverbs-provider/share/own_descriptor.hpp"
#include "libverbs-provider/share/proc_file.hpp"

namespace softhca::provider {

enum class MappingKind : std::uint8_t {
  kAnonymous,  ///< heap, .bss, mmap without a file
  kStack,      ///< the main thread's stack
  kOther,      ///< files, devices, huge pages, kernel pages
};

struct Mapping {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t offset;  ///< in the file
  std::uint64_t inode;   ///< 0: no file
  std::uint32_t device_major;
  std::uint32_t device_minor;
  bool readable;
  bool writable;
  bool executable;
  bool shared;
  MappingKind kind;
};

/// Returns the file of the mapping, as identity_of() does.
FileIdentity file_of(const Mapping& mapping);
/// Returns the part of the mapping in [begin, end). REQUIRES: begin is not above its end.
Mapping clip(const Mapping& mapping, std::uint64_t begin, std::uint64_t end);

/// Reads the mappings in ascending order of address, from the first that ends above `from`.
class MapsReader {
 public:
  explicit MapsReader(std::uint64_t from = 0);

  /// False if /proc cannot be read; then no mapping is known.
  bool ok() const { return file_.fd() >= 0; }
  /// Returns the reason, an errno value.
  int error() const { return file_.error(); }
  /// Reads the next mapping. False: the end of the list.
  bool next(Mapping& mapping);

 private:
  bool ask(Mapping& mapping);
  bool read(Mapping& mapping);
  bool next_line(const char*& begin, const char*& end);
  bool fill();

  std::uint64_t from_;
  bool asks_;  ///< false: read the text, which is faster for the whole list
  const ProcFile::Use file_;
  std::int64_t position_ = 0;  ///< in the text
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  char buffer_[1024];  ///< small: threads may have stacks of 16 KiB
};

/// Parses one line of /proc/PID/maps (without newline). False: it is not such a line.
bool parse_mapping(const char* begin, const char* end, Mapping& mapping);

}  // namespace softhca::provider
