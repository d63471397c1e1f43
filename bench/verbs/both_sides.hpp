// SPDX-License-Identifier: Apache-2.0

// Runs both sides of a benchmark on this machine, as processes of this program.
#pragma once

#include <string>
#include <vector>

namespace softhca::bench {

/// Programs that run a command with the device of a side. Empty: the sides have the device of this
/// process.
struct BothSides {
  std::string server_as;
  std::vector<std::string> clients_as;  ///< one for each client; empty: one client
};

/// Sockets that a side inherits; -1: none.
struct SideSockets {
  int peer = -1;   ///< to the other side
  int begin = -1;  ///< of a client that begins its tests together with others
};

/// Runs the clients, each with a server of its own. `words`: the command line without the name of
/// the program, which each process gets, too. Returns the exit code.
int run_both_sides(const BothSides& sides, const std::vector<std::string>& words);

/// Reports to run_both_sides() that this client can begin, and waits until all can. Ends the
/// program if another client has ended.
void await_others(int begin);

}  // namespace softhca::bench
