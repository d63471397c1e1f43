// SPDX-License-Identifier: Apache-2.0

#include "cli/run/run_processes.hpp"

#include <dirent.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace softhca::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// Returns the parent of a process; 0 if the process is gone.
pid_t parent_of(pid_t process) {
  const std::string path = "/proc/" + std::to_string(process) + "/stat";
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  char text[512];
  if (!file || std::fgets(text, sizeof text, file.get()) == nullptr) return 0;
  // The name of the program, in parentheses, may have spaces and parentheses.
  const char* name_end = std::strrchr(text, ')');
  int parent = 0;
  if (name_end == nullptr || std::sscanf(name_end, ") %*c %d", &parent) != 1) return 0;
  return parent;
}

std::vector<pid_t> children() {
  std::vector<pid_t> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), ::closedir);
  if (!folder) return found;
  while (const dirent* entry = ::readdir(folder.get())) {
    const pid_t process = std::atoi(entry->d_name);
    // /proc may be that of another PID namespace. Its numbers are those of other processes.
    siginfo_t state;
    if (process > 0 && parent_of(process) == ::getpid() &&
        ::waitid(P_PID, static_cast<id_t>(process), &state, WEXITED | WNOHANG | WNOWAIT) == 0)
      found.push_back(process);
  }
  return found;
}

/// Sends the signal once to each child that is not spared. Returns true when none is left.
bool end_children_by(int signal, std::chrono::seconds most, const std::set<pid_t>& spared) {
  std::set<pid_t> signalled;
  for (const auto deadline = Clock::now() + most; Clock::now() < deadline;) {
    bool left = false;
    for (const pid_t process : children()) {
      if (spared.contains(process)) continue;
      if (::waitpid(process, nullptr, WNOHANG) == process) {
        signalled.erase(process);  // another process may get its number
        left = true;               // it may have left children of its own
        continue;
      }
      left = true;
      if (!signalled.insert(process).second) continue;
      ::kill(process, signal);
      ::kill(process, SIGCONT);
    }
    if (!left) return true;
    const timespec pause{.tv_sec = 0, .tv_nsec = 5'000'000};
    ::nanosleep(&pause, nullptr);
  }
  return false;
}

}  // namespace

pid_t start_child(const sigset_t& mask, const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t process = ::fork();
  if (process != 0) return process;
  ::sigprocmask(SIG_SETMASK, &mask, nullptr);
  const int code = body();
  std::fflush(nullptr);
  ::_exit(code);
}

void end_with_parent(pid_t parent, int signal) {
  ::prctl(PR_SET_PDEATHSIG, signal);
  if (::getppid() != parent) ::raise(signal);  // it ended before
}

void end_children(const std::set<pid_t>& spared) {
  if (end_children_by(SIGTERM, std::chrono::seconds(2), spared)) return;
  // Killed processes end at once, unless the kernel holds them, for example for a network disk.
  if (end_children_by(SIGKILL, std::chrono::seconds(10), spared)) return;
  for (const pid_t process : children())
    if (!spared.contains(process))
      std::fprintf(stderr, "softhca-run: process %d does not end\n", process);
}

int exit_code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string end_text(int status) {
  if (!WIFSIGNALED(status)) return "ended with exit code " + std::to_string(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return "was killed by signal " + std::to_string(signal) + " (" + ::strsignal(signal) + ")";
}

}  // namespace softhca::cli
