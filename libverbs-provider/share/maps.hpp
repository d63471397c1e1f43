// The kernel's list of this process's mappings, asked afresh each time it is needed. No allocation:
// it also runs in a child just forked, and while allocators hold their locks.
//
// Linux 6.11 and later can be asked for the mapping at an address. Older kernels have only the list
// as text, from its start: there a question costs more, the more mappings lie below the address.
#pragma once

#include <cstddef>
#include <cstdint>

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

/// Gives the mappings in ascending order of address, from the first that ends above `from`.
class MapsReader {
 public:
  explicit MapsReader(std::uint64_t from = 0);

  /// False when /proc cannot be read: nothing is then known of any mapping.
  bool ok() const { return file_.fd() >= 0; }
  /// Why that is; an errno value.
  int error() const { return file_.error(); }
  /// False at the end of the list.
  bool next(Mapping& mapping);

 private:
  bool ask(Mapping& mapping);
  bool read(Mapping& mapping);
  bool next_line(const char*& begin, const char*& end);
  bool fill();

  std::uint64_t from_;
  bool asks_;  ///< all of the list is faster read
  const ProcFile::Use file_;
  std::int64_t position_ = 0;  ///< in the text
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  char buffer_[1024];  ///< small: threads may have stacks of 16 KiB
};

/// Reads one line of /proc/PID/maps (without its newline); false if it is not one.
bool parse_mapping(const char* begin, const char* end, Mapping& mapping);

}  // namespace softhca::provider
