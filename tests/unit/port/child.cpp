// SPDX-License-Identifier: Apache-2.0

#include "tests/unit/port/child.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

namespace softhca::port {

Child::Child(const std::function<std::string()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return;
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(ends[0]);
    const std::string report = body();
    const ssize_t written = write(ends[1], report.data(), report.size());
    _exit(written == static_cast<ssize_t>(report.size()) && report.empty() ? 0 : 1);
  }
  close(ends[1]);
  report_ = ends[0];
}

Child::~Child() {
  kill();
  if (report_ >= 0) close(report_);
}

std::string Child::result() {
  if (pid_ < 0) return "no process";
  std::string report;
  std::array<char, 512> part;
  for (ssize_t n; (n = read(report_, part.data(), part.size())) > 0;)
    report.append(part.data(), static_cast<std::size_t>(n));
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  if (WIFSIGNALED(status)) return report + " signal " + std::to_string(WTERMSIG(status));
  if (WEXITSTATUS(status) != 0 && report.empty()) return "failed";
  return report;
}

bool Child::is_running() {
  if (pid_ >= 0 && waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
  return pid_ >= 0;
}

void Child::kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace softhca::port
