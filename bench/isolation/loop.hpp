// SPDX-License-Identifier: Apache-2.0

// Queue pairs of one process, connected to each other in pairs, so that an aggressor needs only one
// program and one tenant.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "bench/verbs/endpoint.hpp"

namespace softhca::bench {

/// Waits for the event of a completion queue, and arms the next one. Ends the program on failure.
void await_event(ibv_comp_channel* channel);

struct Demand {
  std::uint32_t queue_pairs = 1;  ///< that send; as many others receive
  std::uint32_t size = 0;         ///< bytes of a message
  std::uint32_t depth = 0;        ///< messages of a queue pair in flight
  std::uint32_t chain = 0;        ///< messages of one post; the last is signalled
};

class Loop {
 public:
  /// `more_access`: access flags beyond those that writes need. Ends the program on failure.
  Loop(const Device& device, const Demand& demand, int more_access = 0);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Posts one chain. REQUIRES: room in the send queue.
  void post(std::uint32_t qp, ibv_wr_opcode opcode);
  /// Posts as many chains as demand.depth allows.
  void fill(std::uint32_t qp, ibv_wr_opcode opcode);
  /// Keeps demand.depth messages of each queue pair in flight, forever. Sleeps in between: with
  /// deep queues the engine still has work, and the processor is left to the victim.
  [[noreturn]] void flood();
  /// Posts one chain on the first queue pair, then pauses, forever.
  [[noreturn]] void trickle(std::chrono::milliseconds pause);

 private:
  void reap();
  std::size_t offset(std::uint32_t qp) const { return std::size_t{qp % areas_} * 2 * demand_.size; }

  Demand demand_;
  std::uint32_t areas_;
  Buffer buffer_;
  ibv_mr* mr_;
  ibv_comp_channel* channel_;
  ibv_cq* cq_;
  std::vector<ibv_qp*> senders_, receivers_;
  std::vector<std::uint32_t> in_flight_;  ///< messages, by sender
  std::vector<ibv_send_wr> chain_;
};

}  // namespace softhca::bench
