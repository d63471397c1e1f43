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
#include "tests/unit/engine/fixture/process.hpp"

namespace softhca::sim {

/// Zeroed memory that outlives adapters.
class KeptMemory {
 public:
  explicit KeptMemory(std::size_t bytes);
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;
  ~KeptMemory();
  std::span<std::byte> bytes() { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

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
  /// Replaces the adapter of a host, between two steps.
  void restart(unsigned host);
  /// Loses all frames that the host sends, or none besides those of RestartOptions.
  void lose_from(unsigned host, bool all);
  unsigned hosts() const { return static_cast<unsigned>(hosts_.size()); }
  Time now() const { return now_; }
  engine::RecordingSink& sink(unsigned host) { return hosts_[host].adapter->sink; }

  std::unique_ptr<engine::Process> a, b;

 private:
  struct Host {
    std::unique_ptr<KeptMemory> memory;
    std::unique_ptr<port::Port> port;  ///< null: none
    std::unique_ptr<engine::Adapter> adapter;
    std::vector<std::unique_ptr<engine::Adapter>> former;
  };

  void start(Host& host, unsigned number);

  const RestartOptions options_;
  Random& random_;
  std::vector<Host> hosts_;
  Time now_{std::chrono::seconds(1)};
};

}  // namespace softhca::sim
