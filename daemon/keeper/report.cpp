// SPDX-License-Identifier: Apache-2.0

#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cstdlib>

#include "daemon/keeper/keeper.hpp"

namespace softhca::keeper {
namespace {

void report(const char* priority, const std::string& text) {
  // A journal takes the priority from the beginning of the line (sd-daemon(3)).
  const bool journal = std::getenv("JOURNAL_STREAM") != nullptr;
  const std::string line = (journal ? priority : "") + ("softhcad: " + text) + "\n";
  [[maybe_unused]] const ssize_t put = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void report_warning(const std::string& text) { report(SD_WARNING, text); }

void report_failure(const std::string& text) {
  report(SD_ERR, text);
  ::sd_notifyf(0, "STATUS=%s", text.c_str());
}

}  // namespace softhca::keeper
