// SPDX-License-Identifier: Apache-2.0

// An agent and a relay, joined by a pair of sockets, against a daemon that the test plays. All of
// it runs in the loop of the test.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "abi/control.hpp"
#include "daemon/base/unique_fd.hpp"
#include "guest/agent/agent.hpp"
#include "guest/channel/event_loop.hpp"
#include "guest/relay/relay.hpp"
#include "tests/folder.hpp"
#include "tests/tenant_socket.hpp"

namespace softhca::guest::test {

using Bytes = std::vector<std::byte>;
inline Bytes bytes_of_text(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}
inline std::string text_of_bytes(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline constexpr std::uint64_t kRegionBytes = 8 << 20;
inline constexpr abi::MemoryPlace kShared{1 << 20, 64 * 4096};

class GuestTest : public ::testing::Test {
 protected:
  GuestTest();
  ~GuestTest() override;

  /// Runs the loop until the condition holds. False: it did not in 10 s.
  bool run_until(const std::function<bool()>& holds);
  /// Handles all that has come.
  void settle();
  /// Starts the agent, and waits until programs can connect.
  void start();
  /// Accepts the next connection that the relay opens. Empty: it opens none.
  UniqueFd accept_daemon();

  /// A program in the guest, connected to the daemon.
  struct Pair {
    UniqueFd program, daemon;
  };
  Pair connect_pair(const std::string& name = "socket");
  /// Receives a record without waiting longer than 10 s. Nothing: the connection has ended.
  std::optional<ReplyRecord> receive(const UniqueFd& socket);
  /// Sends a record of the daemon with a descriptor, and returns the program's.
  UniqueFd pass(const Pair& pair, int fd);
  /// Drops what has come before the end.
  bool is_closed(const UniqueFd& socket);
  std::optional<ReplyRecord> call(const UniqueFd& socket, abi::Operation operation,
                                  std::span<const std::byte> body);

  control::Folder host_, guest_;
  UniqueFd region_;
  UniqueFd listener_;
  UniqueFd monitor_;  ///< the daemon's end of the machine's connection
  abi::StartMachineReply start_reply_{kShared, {}};
  int start_error_ = 0;
  UniqueFd proxy_;  ///< comes with the reply to kStartMachine
  std::vector<abi::StartMachineRequest> starts_;
  EventLoop loop_;
  Report report_{"test"};
  std::optional<Machine> machine_;
  std::unique_ptr<Relay> relay_;
  std::optional<Region> guest_region_;
  std::unique_ptr<Agent> agent_;
  int served_ = 0;                ///< times that the agent began to serve
  std::function<void(int)> tap_;  ///< gets the relay's end of a new channel

 private:
  UniqueFd accept_now();
  void answer_monitor();
  void make_machine();
  void make_agent();
};

void send_record(int socket, std::span<const std::byte> bytes, std::vector<int> fds = {});

}  // namespace softhca::guest::test
