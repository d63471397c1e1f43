// SPDX-License-Identifier: Apache-2.0

// Keeps threads that poll off the processor of the engine. Two that poll on one processor take
// turns, each of microseconds if both yield and of milliseconds if one does not. The kernel leaves
// them there, since to it two processors with one and two threads are as good as balanced.
#pragma once

#include <atomic>
#include <cstdint>

namespace softhca::provider {

class ClientSession;

class Placement {
 public:
  /// Call it when a poll has found no completion. Moves the thread to another processor if it meets
  /// the engine again and again on its own. Its affinity is as before when this returns. Does
  /// nothing where $SOFTHCA_MOVE is 0. Returns true if the thread shares its processor with the
  /// engine.
  bool after_empty_poll(const ClientSession& session);

 private:
  std::atomic<std::uint32_t> meetings_{0};  ///< one after another
  std::atomic<std::uint64_t> moved_at_{0};  ///< ns of CLOCK_MONOTONIC
};

}  // namespace softhca::provider
