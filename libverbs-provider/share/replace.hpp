// Puts a daemon's memfd in the place of memory that threads may be writing at this moment.
//
// For each piece of the range:
//   1. reserve the piece of the memfd and map it elsewhere, populated ("staging");
//   2. register the range with a userfaultfd: a thread that touches a missing page there sleeps;
//   3. take the pages away: anonymous memory is moved aside (mremap DONTUNMAP leaves the range
//      empty); a memfd mapping is dropped from the page table (the page cache keeps the content)
//      and read through a second mapping. From here on nobody can write;
//   4. copy to the staging mapping and move that over the range, page table and all;
//   5. wake the sleepers; they find the new mapping. The old pages are freed.
// So only one piece is ever there twice. A failure before the last move puts the pages back and
// wakes: the memory is as it was.
//
// Between 3 and 5 this thread must not touch memory of the range either, so signals are blocked
// and nothing is allocated. A process with one thread needs no userfaultfd.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "libverbs-provider/share/kernel.hpp"

namespace softhca::provider {

enum class ReplaceKind : std::uint8_t {
  kAnonymous,  ///< private anonymous memory
  kMemfd,      ///< a shared mapping of a memfd that nobody else maps any more
};

/// Keeps its userfaultfd: closing one goes through all mappings of the process. A child's copy is
/// of no use to it.
class Replacer {
 public:
  explicit Replacer(const KernelCalls& kernel);
  ~Replacer();
  Replacer(const Replacer&) = delete;
  Replacer& operator=(const Replacer&) = delete;

  /// Memory in small pieces stalls writers for a shorter time each (0.4 ms for 2 MiB).
  static constexpr std::uint64_t kPieceBytes = 2 << 20;

  /// Replaces [addr, addr+length), whole pages of one readable and writable mapping of the given
  /// kind, by [offset, offset+length) of `fd`. Returns the bytes replaced, from the start; the
  /// rest is as it was.
  std::uint64_t replace(ReplaceKind kind, std::uint64_t addr, std::uint64_t length, int fd,
                        std::uint64_t offset);

 private:
  struct Piece {
    char* addr;
    char* staging;
    char* aside;  ///< the old content: moved pages, or the second mapping
    std::uint64_t length;
    ReplaceKind kind;
  };

  bool replace_piece(Piece& piece, int fd, std::uint64_t offset);
  bool stage(Piece& piece, int fd, std::uint64_t offset);
  bool exchange(Piece& piece);
  bool take_pages(Piece& piece);
  void put_back(Piece& piece);
  bool hold(const Piece& piece);
  void let_go(const Piece& piece);
  void wake(const Piece& piece);
  bool can_hold(ReplaceKind kind);
  bool still_open() const;
  void open_userfaultfd();
  void close_userfaultfd();

  const KernelCalls& kernel_;
  int uffd_ = -1;
  ino_t inode_ = 0;  ///< of the userfaultfd
  bool holds_memfd_ = false;
};

}  // namespace softhca::provider
