#include "daemon/memory/process_memory.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

namespace softhca::memory {

namespace {

/// Drops the first `bytes` bytes of a vector, and entries that are empty.
void skip(std::span<iovec>& vector, std::size_t bytes) {
  while (!vector.empty() && bytes >= vector.front().iov_len) {
    bytes -= vector.front().iov_len;
    vector = vector.subspan(1);
  }
  if (vector.empty()) return;
  vector.front().iov_base = static_cast<std::byte*>(vector.front().iov_base) + bytes;
  vector.front().iov_len -= bytes;
}

Error failed(pid_t pid, const char* step, int code) {
  return {"process " + std::to_string(pid) + ": " + step + ": " + std::strerror(code), code};
}

bool has_ended(int pidfd) {
  pollfd state{pidfd, POLLIN, 0};
  return ::poll(&state, 1, 0) != 0;
}

/// Are all user ids of the process (real, effective, saved, of the file system) `uid`?
bool is_only(const std::string& folder, uid_t uid) {
  std::ifstream status(folder + "/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("Uid:")) continue;
    std::istringstream numbers(line.substr(4));
    int equal = 0;
    for (uid_t number = 0; numbers >> number && number == uid;) ++equal;
    return equal == 4;
  }
  return false;
}

/// The kernel gives the file to root when the process executes a program that gives it rights, by
/// user or by capabilities, even after it has dropped them. Looked up anew: an open file may still
/// show an earlier owner.
bool is_accessible_to(const std::string& memory, uid_t uid) {
  struct stat st;
  return ::stat(memory.c_str(), &st) == 0 && st.st_uid == uid;
}

}  // namespace

Expected<std::shared_ptr<ProcessMemory>> ProcessMemory::open(pid_t pid, uid_t uid, int pidfd) {
  const std::string folder = "/proc/" + std::to_string(pid);
  const std::string path = folder + "/mem";
  UniqueFd memory(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  const int code = memory ? 0 : errno;
  // All that is checked is checked after opening. When the process executed something else in
  // between, the address space that was opened is gone, and gives access to nothing.
  const bool permitted = memory && is_only(folder, uid) && is_accessible_to(path, uid);
  // This comes last: as long as the process lives, its number belongs to no other.
  if (has_ended(pidfd)) return failed(pid, "memory", ESRCH);
  if (!memory) return failed(pid, "memory", code == ENOENT ? ESRCH : code);
  if (!permitted) return failed(pid, "memory", EPERM);
  return std::shared_ptr<ProcessMemory>(new ProcessMemory(std::move(memory)));
}

Verdict ProcessMemory::read(std::span<iovec> local, std::span<iovec> remote) {
  return transfer(&::preadv, local, remote);
}

Verdict ProcessMemory::write(std::span<iovec> local, std::span<iovec> remote) {
  return transfer(&::pwritev, local, remote);
}

Verdict ProcessMemory::transfer(Call call, std::span<iovec> local, std::span<iovec> remote) {
  skip(local, 0);
  skip(remote, 0);
  while (!local.empty() && !remote.empty()) {
    // As much of `local` as there is in the first range of `remote`.
    const std::size_t range = remote.front().iov_len;
    std::size_t count = 0;
    std::size_t bytes = 0;
    while (count < local.size() && bytes < range) bytes += local[count++].iov_len;
    const std::size_t beyond = bytes > range ? bytes - range : 0;
    local[count - 1].iov_len -= beyond;
    const auto at = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(remote.front().iov_base));
    const ssize_t moved = call(memory_.get(), local.data(), static_cast<int>(count), at);
    const bool again = moved < 0 && errno == EINTR;
    local[count - 1].iov_len += beyond;
    if (again) continue;
    if (moved <= 0) return Verdict::kLocalProtection;
    // A short count: a fault further on, or more than the kernel moves in one call. The next call
    // tells.
    skip(local, static_cast<std::size_t>(moved));
    skip(remote, static_cast<std::size_t>(moved));
  }
  return Verdict::kOk;
}

}  // namespace softhca::memory
