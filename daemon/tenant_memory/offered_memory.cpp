// SPDX-License-Identifier: Apache-2.0

#include "daemon/tenant_memory/offered_memory.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/base/passed_descriptors.hpp"

namespace softhca::memory {
namespace {

/// True if the descriptor refers to the memory of a process. A mount can fake its name, so the file
/// system and the mode are checked too. No other file of procfs that a user can open has this mode:
/// readable and writable for its owner only.
bool is_memory(int fd) {
  struct statfs system;
  struct stat st;
  if (::fstatfs(fd, &system) != 0 || system.f_type != PROC_SUPER_MAGIC) return false;
  if (::fstat(fd, &st) != 0 || st.st_mode != (S_IFREG | S_IRUSR | S_IWUSR)) return false;
  if ((::fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDWR) return false;
  std::array<char, 256> name;
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = ::readlink(link.c_str(), name.data(), name.size());
  return length > 0 && static_cast<std::size_t>(length) < name.size() &&
         std::string_view(name.data(), static_cast<std::size_t>(length)).ends_with("/mem");
}

}  // namespace

void skip_bytes(std::span<iovec>& vector, std::size_t bytes) {
  while (!vector.empty() && bytes >= vector.front().iov_len) {
    bytes -= vector.front().iov_len;
    vector = vector.subspan(1);
  }
  if (vector.empty()) return;
  vector.front().iov_base = static_cast<std::byte*>(vector.front().iov_base) + bytes;
  vector.front().iov_len -= bytes;
}

/// Takes a copy of the descriptor. The process sent it before it registered the memory that needs
/// it. The descriptor stays in the socket, for the adapter that follows.
bool OfferedMemory::receive() {
  if (!socket_) return false;
  std::byte record{};
  std::array<UniqueFd, 1> fds;
  const ssize_t got =
      receive_with_descriptors(socket_.get(), {&record, 1}, fds, MSG_DONTWAIT | MSG_PEEK);
  if (got < 0 && errno == EAGAIN) return false;
  socket_.reset();
  if (fds[0] && is_memory(fds[0].get())) memory_ = std::move(fds[0]);
  return static_cast<bool>(memory_);
}

Verdict OfferedMemory::read(std::span<iovec> local, std::span<iovec> remote) {
  return transfer(&::preadv, local, remote);
}

Verdict OfferedMemory::write(std::span<iovec> local, std::span<iovec> remote) {
  return transfer(&::pwritev, local, remote);
}

Verdict OfferedMemory::transfer(Call call, std::span<iovec> local, std::span<iovec> remote) {
  skip_bytes(local, 0);
  skip_bytes(remote, 0);
  if (!local.empty() && !remote.empty() && !memory_ && !receive()) return Verdict::kLocalProtection;
  while (!local.empty() && !remote.empty()) {
    // Use the entries of `local` that fit the first range of `remote`.
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
    // A short count: either a later fault, or more than the kernel moves in one call. The next call
    // shows which.
    skip_bytes(local, static_cast<std::size_t>(moved));
    skip_bytes(remote, static_cast<std::size_t>(moved));
  }
  return Verdict::kOk;
}

}  // namespace softhca::memory
