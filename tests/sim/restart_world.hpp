// SPDX-License-Identifier: Apache-2.0

// Two programs, on one host or on two. Their adapters are replaced again and again. Each adapter
// goes on from the memory that outlives its predecessor: the state of the engine, the rings, the
// session memory and the memory of the programs. The programs do not notice.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "tests/sim/random.hpp"
#include "tests/sim/store_trap.hpp"
#include "tests/unit/engine/fixture/process.hpp"

namespace softhca::sim {

struct RestartOptions {
  bool local = false;  ///< both programs are on one host
  double loss = 0;     ///< of frames between two hosts
};

class RestartWorld {
 public:
  RestartWorld(const RestartOptions& options, Random& random);
  ~RestartWorld();

  /// Runs one poll step of each adapter.
  void step();
  /// The parts of step(). advance() skips time in which nothing is due.
  void advance();
  void poll(unsigned host) { idle_ = !hosts_[host].adapter->engine.poll(now_) && idle_; }
  /// Replaces the adapter of a host, between two steps.
  void restart(unsigned host);
  /// Replaces an adapter that has ended in poll(), as a killed process has. `culprit`: what it has
  /// crashed twice with.
  void take_over(unsigned host, Subject culprit = {});
  /// Watches the memory that outlives the adapter of a host.
  void watch(StoreTrap& trap, unsigned host);
  engine::QpTable& queue_pairs(unsigned host) {
    return hosts_[host].adapter->engine.durable().queue_pairs;
  }
  /// The state that the adapter of a host leaves.
  std::span<std::byte> state_of(unsigned host) { return hosts_[host].memory->pages(); }
  /// Loses all frames that the host sends, or none besides those of RestartOptions.
  void lose_from(unsigned host, bool all);
  unsigned hosts() const { return static_cast<unsigned>(hosts_.size()); }
  Time now() const { return now_; }
  engine::RecordingSink& sink(unsigned host) { return hosts_[host].adapter->sink; }

  std::unique_ptr<engine::Process> a, b;

 private:
  struct Host {
    std::unique_ptr<engine::RingMemory> memory;  ///< for the state of engines
    std::unique_ptr<port::Port> port;            ///< null: none
    std::unique_ptr<engine::Adapter> adapter;
    std::vector<std::unique_ptr<engine::Adapter>> former;
  };

  void start(Host& host, unsigned number);

  const RestartOptions options_;
  Random& random_;
  std::vector<Host> hosts_;
  Time now_{std::chrono::seconds(1)};
  bool idle_ = false;  ///< no engine has done anything in this step
};

}  // namespace softhca::sim
