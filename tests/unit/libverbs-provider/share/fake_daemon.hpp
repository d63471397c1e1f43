// SPDX-License-Identifier: Apache-2.0

// Plays the daemon: hands out sealed memfds, maps what it handed out, remembers what came back.
// With FAKE_MACHINE in the environment, it plays the agent of a virtual machine: it hands out
// pieces of one memfd.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "libverbs-provider/share/share.hpp"

namespace softhca::provider {

inline constexpr std::size_t kPage = 4096;

/// True if the tests run as in a virtual machine.
inline bool in_machine() {
  static const bool wanted = std::getenv("FAKE_MACHINE") != nullptr;
  return wanted;
}

/// The memory of a virtual machine, and the pieces that its agent has given to this process.
class FakeMachine {
 public:
  static FakeMachine& instance() {
    static FakeMachine machine;
    return machine;
  }
  int fd() const { return fd_; }
  const FileIdentity& file() const { return file_; }
  /// The next piece begins so many pages later, so that it does not adjoin the last one.
  void skip(std::uint64_t pages) { next_ += pages; }
  std::uint32_t next() const { return static_cast<std::uint32_t>(next_); }

  std::uint32_t alloc(std::uint64_t bytes) {
    const std::uint32_t handle = next();
    next_ += (bytes + kPage - 1) / kPage;
    pieces_[handle] = bytes;
    return handle;
  }
  bool holds(std::uint32_t handle) const { return pieces_.contains(handle); }
  /// Takes a piece back. Ends the test program if the process still maps a part of it.
  void free(std::uint32_t handle) {
    const std::uint64_t bytes = pieces_.at(handle);
    pieces_.erase(handle);
    if (is_mapped(handle * kPage, bytes)) std::abort();
    ::fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(handle * kPage),
                static_cast<off_t>(bytes));
  }

 private:
  FakeMachine() : fd_(::memfd_create("softhca-machine", MFD_CLOEXEC)), file_(identity_of(fd_)) {
    if (::ftruncate(fd_, off_t{1} << 40) != 0) std::abort();
  }
  bool is_mapped(std::uint64_t offset, std::uint64_t bytes) const {
    MapsReader maps;
    Mapping mapping;
    while (maps.next(mapping))
      if (file_of(mapping) == file_ && mapping.offset < offset + bytes &&
          mapping.offset + (mapping.end - mapping.begin) > offset)
        return true;
    return false;
  }

  int fd_;
  FileIdentity file_;
  std::uint64_t next_ = 5;
  std::map<std::uint32_t, std::uint64_t> pieces_;  ///< bytes, by handle
};

class FakeDaemon {
 public:
  explicit FakeDaemon(bool machine = in_machine()) : machine_(machine) {}
  ~FakeDaemon() {
    for (auto& [handle, memory] : memories_) ::close(memory.fd);
  }

  SharedMemorySource source() {
    return {
        this,
        [](void* self, std::uint64_t bytes, SharedMemory* memory) {
          return static_cast<FakeDaemon*>(self)->alloc(bytes, memory);
        },
        [](void* self, std::uint32_t handle, bool is_unmapped) {
          static_cast<FakeDaemon*>(self)->free(handle, is_unmapped);
        },
        [](void* self, std::uint32_t handle, abi::SharedToken* token) {
          return static_cast<FakeDaemon*>(self)->name(handle, *token);
        },
        [](void* self, const abi::SharedToken& token, std::uint32_t* handle) {
          return static_cast<FakeDaemon*>(self)->join(token, *handle);
        },
        [](void* self, int fd) { static_cast<FakeDaemon*>(self)->to_seal.insert(inode_of(fd)); },
        machine_ ? FakeMachine::instance().file() : FileIdentity{}};
  }

  // It reads and writes the memfds by their descriptors: mapped, they would look like the
  // application's own.

  /// True if the daemon finds at these addresses what the application finds there.
  bool sees_the_same(std::span<const abi::MrExtent> extents, const char* addr, std::size_t length) {
    for (std::size_t i = 0; i < length; i += kPage) {
      char theirs[kPage];
      const std::size_t bytes = std::min(kPage, length - i);
      const Place place = find(extents, addr + i);
      if (place.fd < 0) return false;
      if (::pread(place.fd, theirs, bytes, place.offset) != static_cast<ssize_t>(bytes))
        return false;
      if (std::memcmp(theirs, addr + i, bytes) != 0) return false;
    }
    return true;
  }
  void write(std::span<const abi::MrExtent> extents, const char* addr, char value) {
    const Place place = find(extents, addr);
    if (::pwrite(place.fd, &value, 1, place.offset) != 1) std::abort();
  }

  int error = 0;  ///< of alloc
  unsigned allocs = 0;
  std::uint64_t allowance = ~std::uint64_t{0};  ///< bytes it hands out before ENOMEM
  std::set<std::uint32_t> freed;
  std::set<std::uint32_t> unmapped;  ///< of those in `freed`
  std::set<std::uint32_t> given_up;  ///< by itself
  std::set<std::uint64_t> to_seal;   ///< inodes of what it was told to seal
  int join_error = 0;
  unsigned joins = 0;

  /// Seals the memory, as the daemon does at registration: no holes from now on, and no new
  /// writable mapping.
  void seal() {  // not the memory of a machine, which other tests map
    for (const auto& [handle, memory] : memories_)
      ::fcntl(memory.fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
  }

 private:
  static std::uint64_t inode_of(int fd) {
    struct stat file {};
    ::fstat(fd, &file);
    return file.st_ino;
  }

  struct Memory {
    int fd;
    std::uint64_t bytes;
  };
  struct Place {
    int fd;  ///< -1: not in shared memory
    off_t offset;
  };

  Place find(std::span<const abi::MrExtent> extents, const char* addr) {
    const auto wanted = reinterpret_cast<std::uint64_t>(addr);
    for (const abi::MrExtent& extent : extents) {
      if (wanted < extent.addr || wanted >= extent.addr + extent.length) continue;
      if (extent.kind != static_cast<std::uint32_t>(abi::ExtentKind::kShared)) break;
      if (machine_)
        return {FakeMachine::instance().fd(),
                static_cast<off_t>(extent.handle * kPage + extent.offset + (wanted - extent.addr))};
      return {memories_.at(extent.handle).fd,
              static_cast<off_t>(extent.offset + (wanted - extent.addr))};
    }
    return {-1, 0};
  }

  int alloc(std::uint64_t bytes, SharedMemory* memory) {
    if (error != 0) return error;
    std::uint64_t in_use = 0;
    const std::set<std::uint32_t>& returned = machine_ ? unmapped : freed;
    for (const auto& [handle, held] : memories_)
      in_use += returned.contains(handle) ? 0 : held.bytes;
    if (in_use + bytes > allowance) return ENOMEM;
    ++allocs;
    if (machine_) {
      const std::uint32_t handle = FakeMachine::instance().alloc(bytes);
      memories_[handle] = {-1, bytes};
      *memory = {::dup(FakeMachine::instance().fd()), handle, {handle * kPage, bytes}};
      return 0;
    }
    const int fd = ::memfd_create("softhca-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0) return errno;
    ::fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
    memories_[next_] = {fd, bytes};
    *memory = {::dup(fd), next_++, {}};
    return 0;
  }

  void free(std::uint32_t handle, bool is_unmapped) {
    if (machine_ && is_unmapped) FakeMachine::instance().free(handle);
    if (!memories_.contains(handle)) return;  // a piece of an earlier test
    freed.insert(handle);
    if (is_unmapped) unmapped.insert(handle);
  }

  /// Each object of this class is a session of the same daemon.
  struct Name {
    const FakeDaemon* session;
    std::uint32_t handle;
  };
  static_assert(sizeof(Name) <= sizeof(abi::SharedToken));

  int name(std::uint32_t handle, abi::SharedToken& token) const {
    if (machine_) std::abort();  // a machine has no such requests
    if (given_up.contains(handle) || !memories_.contains(handle)) return ESTALE;
    const Name name{this, handle};
    std::memcpy(token.bytes, &name, sizeof name);
    return 0;
  }
  int join(const abi::SharedToken& token, std::uint32_t& handle) {
    if (join_error != 0) return join_error;
    Name name{};
    std::memcpy(&name, token.bytes, sizeof name);
    const Memory& memory = name.session->memories_.at(name.handle);
    ++joins;
    handle = next_++;
    memories_[handle] = {::dup(memory.fd), memory.bytes};
    return 0;
  }

  const bool machine_;
  std::map<std::uint32_t, Memory> memories_;
  std::uint32_t next_ = 7;
};

/// Anonymous memory with a pattern in it.
class Anonymous {
 public:
  explicit Anonymous(std::size_t pages, char seed = 1) : bytes_(pages * kPage) {
    base_ = static_cast<char*>(
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    fill(base_, bytes_, seed);
  }
  ~Anonymous() { ::munmap(base_, bytes_); }
  Anonymous(const Anonymous&) = delete;
  Anonymous& operator=(const Anonymous&) = delete;

  static void fill(char* base, std::size_t bytes, char seed) {
    for (std::size_t i = 0; i < bytes; ++i) base[i] = value(i, seed);
  }
  static bool holds(const char* base, std::size_t bytes, char seed) {
    for (std::size_t i = 0; i < bytes; ++i) {
      if (base[i] != value(i, seed)) return false;
    }
    return true;
  }
  static char value(std::size_t i, char seed) {
    return static_cast<char>(i * 31 + i / kPage + seed);
  }

  char* base() const { return base_; }
  std::size_t bytes() const { return bytes_; }
  bool intact(char seed = 1) const { return holds(base_, bytes_, seed); }

 private:
  std::size_t bytes_;
  char* base_;
};

/// How many mappings the kernel allows a process.
inline std::size_t mappings_allowed() {
  std::size_t allowed = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> allowed;
  return allowed;
}

/// Makes mappings until there can be no more, but for some. Returns where they lie.
inline char* fill_mappings(std::size_t limit, std::size_t left) {
  auto* many = static_cast<char*>(::mmap(nullptr, limit * kPage, PROT_NONE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  std::size_t at = 0;
  while (at + 1 < limit && ::mprotect(many + at * kPage, kPage, PROT_READ) == 0) at += 2;
  std::vector<void*> single;
  void* page = nullptr;
  while ((page = ::mmap(nullptr, kPage, single.size() % 2 == 0 ? PROT_READ : PROT_NONE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED)
    single.push_back(page);
  for (; left != 0 && !single.empty(); --left) {
    ::munmap(single.back(), kPage);
    single.pop_back();
  }
  for (; left > 1; left -= 2) ::mprotect(many + (at -= 2) * kPage, kPage, PROT_NONE);
  return many;
}

inline MemoryRegistry::Request region(const void* addr, std::size_t length) {
  return {reinterpret_cast<std::uint64_t>(addr), length};
}

/// "P" for each extent reached by process_vm, "S" for each shared one; "!" in front unless they
/// cover the region exactly, one adjoining the other.
inline std::string shape(const void* addr, std::size_t length, const ExtentList& extents) {
  std::string text;
  auto at = reinterpret_cast<std::uint64_t>(addr);
  for (const abi::MrExtent& extent : extents.all()) {
    if (extent.addr != at || extent.length == 0) text.insert(0, "!");
    at = extent.addr + extent.length;
    text += extent.kind == static_cast<std::uint32_t>(abi::ExtentKind::kShared) ? 'S' : 'P';
  }
  if (at != reinterpret_cast<std::uint64_t>(addr) + length) text.insert(0, "!");
  return text;
}

}  // namespace softhca::provider
