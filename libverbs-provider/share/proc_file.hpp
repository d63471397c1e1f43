// Files of /proc/self that the process needs, and may be unable to open later: it confines itself
// (chroot, another user, seccomp) or has no descriptor left.
#pragma once

#include <atomic>

#include "libverbs-provider/share/own_descriptor.hpp"

namespace softhca::provider {

class ProcFile {
 public:
  static ProcFile& maps();    ///< /proc/self/maps, to be read
  static ProcFile& memory();  ///< /proc/self/mem, to be read and written

  /// Opens all of them, to be kept while the process runs. Called for every device that is opened.
  /// A forked child, whose files are others, opens its own.
  static void keep_all();

  /// A file to use: opened anew, or else the kept one, which is closed with none of these.
  class Use {
   public:
    explicit Use(const ProcFile& file);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    /// -1: it cannot be opened, and none was kept; error() says why.
    int fd() const { return fd_; }
    int error() const { return error_; }

   private:
    int fd_;
    bool kept_ = false;
    int error_ = 0;
  };

 private:
  constexpr ProcFile(const char* path, int flags) : path_(path), flags_(flags) {}
  int open() const;
  int kept() const;
  void keep();
  void keep_again();

  const char* path_;
  int flags_;
  std::atomic<int> fd_{-1};
  std::atomic<dev_t> device_{0};
  std::atomic<ino_t> inode_{0};
};

}  // namespace softhca::provider
