// SPDX-License-Identifier: Apache-2.0

// Reads a file that an operator names, such as the configuration or a key file.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>

#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"

namespace softhca {

/// Refuses a FIFO, as its writer may never come. `fd`: an open file.
inline Outcome check_no_fifo(int fd) {
  struct stat info;
  if (::fstat(fd, &info) != 0) return Error{std::strerror(errno), errno};
  if (S_ISFIFO(info.st_mode)) return Error{"Is a FIFO, not a regular file", EINVAL};
  return {};
}

/// Returns the first `most` bytes of the file, if check(descriptor) allows the file. The check must
/// refuse a FIFO. Errors: those of check(), open() and read().
inline Expected<std::string> read_small_file(const std::string& path, std::size_t most,
                                             Outcome (*check)(int) = check_no_fifo) {
  const auto failure = [] { return Error{std::strerror(errno), errno}; };
  // Without O_NONBLOCK, a FIFO without a writer blocks the caller. A terminal must not become its
  // controlling one.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return failure();
  if (const auto allowed = check(fd.get()); !allowed) return allowed.error();
  std::string text(most, '\0');
  for (std::size_t length = 0;;) {
    const ssize_t got = ::read(fd.get(), text.data() + length, most - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failure();
    length += static_cast<std::size_t>(got);
    if (got != 0 && length < most) continue;
    text.resize(length);
    return text;
  }
}

}  // namespace softhca
