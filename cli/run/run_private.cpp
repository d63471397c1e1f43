// SPDX-License-Identifier: Apache-2.0

#include "cli/run/run_private.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "cli/run/run_manager.hpp"
#include "cli/run/run_processes.hpp"

namespace softhca::cli {
namespace {

namespace fs = std::filesystem;

constexpr char kManagerName[] = "softhca-manager";

int fail(const std::string& message) {
  std::fprintf(stderr, "softhca-run: %s\n", message.c_str());
  return kRunFailed;
}

sigset_t relayed_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGCHLD})
    ::sigaddset(&set, signal);
  return set;
}

/// Gives this process another name than softhca-run, so that `pkill softhca-run` does not take
/// both.
void name_manager(std::span<char> command_line) {
  ::prctl(PR_SET_NAME, kManagerName);
  std::fill(command_line.begin(), command_line.end(), '\0');
  std::strncpy(command_line.data(), kManagerName, command_line.size() - 1);
}

/// Passes signals on until the manager has ended. Returns its wait status.
int relay_signals(pid_t manager, int relay, const sigset_t& set) {
  for (;;) {
    siginfo_t info;
    const int signal = ::sigwaitinfo(&set, &info);
    int status = 0;
    if (signal == SIGCHLD && ::waitpid(manager, &status, WNOHANG) == manager) return status;
    if (signal <= 0 || signal == SIGCHLD) continue;
    // SI_USER and its like are not positive; what the kernel sends is. When a terminal closes, the
    // kernel sends SIGHUP to the leader of its session only.
    const bool to_leader = signal == SIGHUP && ::getsid(0) == ::getpid();
    const unsigned char byte = RelayedSignal{signal, info.si_code > 0 && !to_leader}.byte();
    ::send(relay, &byte, 1, MSG_NOSIGNAL);  // the manager may have ended
  }
}

/// Removes the folder of a manager that has ended before it could.
void remove_folder(int relay) {
  char name[PATH_MAX];
  const ssize_t length = ::recv(relay, name, sizeof name, MSG_DONTWAIT);
  std::error_code ignored;
  if (length > 0) fs::remove_all(std::string(name, static_cast<std::size_t>(length)), ignored);
}

}  // namespace

int run_with_daemons(const RunOptions& options, const Libraries& libraries,
                     std::span<char> command_line) {
  const Found<fs::path> softhcad = find_daemon();
  if (const auto* failure = std::get_if<Failure>(&softhcad)) return fail(failure->message);
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return fail("/proc is not mounted");
  int relay[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, relay) != 0)
    return fail(std::string("no socket: ") + std::strerror(errno));

  // Should the manager be killed, its children become those of this process.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::signal(SIGCHLD, SIG_DFL);
  const sigset_t set = relayed_signals();
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &set, &before);
  const pid_t manager = start_child(set, [&] {
    ::close(relay[1]);
    name_manager(command_line);
    return Manager({.options = options,
                    .softhcad = std::get<fs::path>(softhcad),
                    .self = self,
                    .libraries = libraries,
                    .relay = relay[0],
                    .mask = before,
                    .group = ::getpgid(::getppid())})
        .run();
  });
  if (manager < 0) return fail(std::string("no more processes: ") + std::strerror(errno));
  ::close(relay[0]);
  const int status = relay_signals(manager, relay[1], set);
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  end_children({});
  remove_folder(relay[1]);
  return fail(std::string(kManagerName) + ", its process for the daemons, " + end_text(status));
}

}  // namespace softhca::cli
