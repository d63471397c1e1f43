// SPDX-License-Identifier: Apache-2.0

// The connection of a machine's monitor to the daemon (kTakeMachine). The machine ends with it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "abi/control.hpp"
#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"
#include "guest/channel/event_loop.hpp"

namespace softhca::guest {

class Machine {
 public:
  /// What came of kStartMachine.
  struct Started {
    int error = 0;  ///< errno value
    std::string text;
    abi::StartMachineReply reply{};
  };

  /// Takes the machine by the tenant socket at `path`. Waits up to 30 s for the daemon.
  static Expected<Machine> take(const std::string& path);

  int region() const { return region_.get(); }
  std::uint64_t bytes() const { return bytes_; }
  /// True if the descriptor is the region.
  bool is_region(int fd) const;

  /// Calls `answered` when start() has an answer, and `lost` when the daemon has ended the machine.
  void watch(EventLoop& loop, std::function<void()> answered, std::function<void()> lost);
  /// Starts the machine, unless it has started. REQUIRES: watch() was called.
  void start(std::uint64_t begin, bool seal);
  /// Returns the answer to the latest start(); null: it has not come yet.
  const Started* started() const { return started_ ? &*started_ : nullptr; }
  /// Returns the descriptor that came with the reply to kStartMachine; -1: none.
  int proxy() const { return proxy_.get(); }

 private:
  void receive();
  void lose();
  void refuse(int error, std::string text);

  UniqueFd socket_;
  UniqueFd region_;
  UniqueFd proxy_;
  std::uint64_t bytes_ = 0;
  std::uint64_t begin_ = 0;   ///< of the latest kStartMachine
  bool has_started_ = false;  ///< the daemon serves programs of the machine
  bool is_waiting_ = false;   ///< for the reply to kStartMachine
  std::uint32_t tag_ = 0;     ///< of the latest request
  std::optional<Started> started_;
  abi::StartMachineReply reply_{};  ///< if it has started
  EventLoop* loop_ = nullptr;
  Watch watch_;
  std::function<void()> answered_, lost_;
};

}  // namespace softhca::guest
