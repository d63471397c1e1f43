// SPDX-License-Identifier: Apache-2.0

// Files of /proc/self that the process needs, but may be unable to open later: it may confine
// itself (chroot, another user, seccomp) or have no free descriptor.
#pragma once

#include <atomic>

#include "libverbs-provider/share/own_descriptor.hpp"

namespace softhca::provider {

class ProcFile {
 public:
  static ProcFile& maps();    ///< /proc/self/maps, for reading
  static ProcFile& memory();  ///< /proc/self/mem, for reading and writing

  /// Opens all files and keeps them while the process runs. Called for each opened device. A forked
  /// child opens its own, because its files differ.
  static void keep_all();

  /// A file to use: opened anew if possible, else the kept one. The destructor does not close the
  /// kept one.
  class Use {
   public:
    explicit Use(const ProcFile& file);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

    /// Returns -1 if the file cannot be opened and none was kept; error() has the reason.
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
