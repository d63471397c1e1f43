// SPDX-License-Identifier: Apache-2.0

// The two sides of a benchmark.
#pragma once

#include <functional>
#include <vector>

#include "bench/verbs/endpoint.hpp"

namespace softhca::bench {

/// What to measure, and for how long.
struct Plan {
  std::vector<Operation> operations;
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint32_t> queue_pairs;
  bool rate = true;
  bool latency = true;
  bool completion = false;
  bool echo = false;
  double seconds = 0.5;  ///< of each rate test
  std::uint32_t depth = 64;
  std::uint32_t iterations = 0;  ///< of each test but rates; 0: the longer the message, the fewer
  std::uint32_t mtu = 0;         ///< bytes; 0: the largest that both sides have
  unsigned turns = 1;            ///< how often to run all of it
  bool json = false;             ///< print an object a line instead of tables
  /// Called before each test, for clients that begin together.
  std::function<void()> await_others = [] {};
};

/// Takes part in tests until the client is done.
void serve(const Device& device, Peer& peer);
/// Runs the plan against a server and prints a line for each figure.
void run_client(const Device& device, Peer& peer, const Plan& plan);

/// Sends or writes a message back and forth, spec.iterations times. `times` gets the seconds of
/// each round trip as the first side measures it.
void play_ping_pong(Endpoint& endpoint, const TestSpec& spec, bool first,
                    std::vector<double>* times);

/// Has the other side send each message back, with spec.depth of them on the way, until
/// spec.iterations have come back. Both sides sleep until something arrives. `times` gets the
/// seconds from each message to its echo as the first side measures them. The latter function uses
/// the connection of the two sides instead of a queue pair.
void play_echo(Endpoint& endpoint, const TestSpec& spec, bool first, std::vector<double>* times);
void play_tcp_echo(Peer& peer, const TestSpec& spec, bool first, std::vector<double>* times);

}  // namespace softhca::bench
