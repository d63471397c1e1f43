// SPDX-License-Identifier: Apache-2.0

#include "daemon/keeper/thread_watch.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "daemon/base/unique_fd.hpp"

namespace softhca::keeper {
namespace {

struct ThreadState {
  char state = 'X';  ///< as ps(1) shows it; X: the thread is gone
  std::chrono::milliseconds worked{};
};

/// Reads /proc/PROCESS/task/THREAD/stat (proc(5)).
ThreadState read_state(pid_t process, std::int32_t thread) {
  const std::string path =
      "/proc/" + std::to_string(process) + "/task/" + std::to_string(thread) + "/stat";
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> text{};
  if (!file || ::read(file.get(), text.data(), text.size() - 1) <= 0) return {};
  // The name, in parentheses, may have any characters.
  const char* const name_end = std::strrchr(text.data(), ')');
  ThreadState read;
  unsigned long user = 0, system = 0;
  if (name_end == nullptr ||
      std::sscanf(name_end + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &read.state,
                  &user, &system) != 3)
    return {};
  read.worked = std::chrono::milliseconds((user + system) * 1000 /
                                          static_cast<unsigned long>(::sysconf(_SC_CLK_TCK)));
  return read;
}

}  // namespace

bool ThreadWatch::hangs(pid_t process) {
  const std::int32_t thread = pulse_.thread.load();
  const std::uint64_t turns = pulse_.turns.load(std::memory_order_relaxed);
  const bool turned = std::exchange(turns_, turns) != turns;
  if (thread == 0 || turned || pulse_.asleep.load(std::memory_order_relaxed) != 0) {
    reset();
    return false;
  }
  if (quiet_++ == 0) worked_ = read_state(process, thread).worked;
  if (quiet_ < limit_) return false;
  const ThreadState now = read_state(process, thread);
  switch (now.state) {
    case 't':  // a debugger has stopped it
      quiet_ = 0;
      return false;
    case 'R':
      return now.worked - worked_ >= limit_ * kTick;
    case 'D':
      return quiet_ >= 10 * limit_;
    default:
      return true;
  }
}

}  // namespace softhca::keeper
