// SPDX-License-Identifier: Apache-2.0

// Child processes of softhca-run.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <set>
#include <string>

namespace softhca::cli {

/// Starts a child process that runs `body`, which returns only an exit code. The child takes the
/// signal mask. Returns -1 if there can be no more processes.
pid_t start_child(const sigset_t& mask, const std::function<int()>& body);

/// The kernel sends this process the signal when its parent, which must be `parent`, ends.
void end_with_parent(pid_t parent, int signal);

/// Ends all children, and those that become children when their parent ends, but for `spared`:
/// SIGTERM first, SIGKILL two seconds later. REQUIRES: PR_SET_CHILD_SUBREAPER is set.
void end_children(const std::set<pid_t>& spared);

/// Returns the exit code of a shell for this wait status.
int exit_code_of(int status);
/// Returns "ended with exit code 1" or "was killed by signal 9 (Killed)".
std::string end_text(int status);

}  // namespace softhca::cli
