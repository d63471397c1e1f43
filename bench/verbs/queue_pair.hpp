// SPDX-License-Identifier: Apache-2.0

// Creates and connects reliable queue pairs.
#pragma once

#include "bench/verbs/endpoint.hpp"

namespace softhca::bench {

/// Ends the program if `error`, an errno, is not 0.
void check(int error, const char* what);

/// Completion queues and depths of a queue pair.
struct RcQueues {
  ibv_cq* send_cq;
  ibv_cq* receive_cq;
  std::uint32_t sends, receives;
  ibv_srq* srq = nullptr;  ///< its receives replace those of the queue pair
};

/// Creates a queue pair in INIT, with remote writes and reads allowed. Ends the program on failure.
ibv_qp* create_rc(const Device& device, const RcQueues& queues);
/// As above, with one completion queue for sends and receives.
inline ibv_qp* create_rc(const Device& device, ibv_cq* cq, std::uint32_t sends,
                         std::uint32_t receives) {
  return create_rc(device, {cq, cq, sends, receives});
}

struct RemoteEnd {
  std::uint32_t qpn, psn;
  ibv_gid gid;
};

/// Moves a queue pair to RTS, with `reads` reads and atomics at once each way. Sends without a
/// receive are retried forever. Ends the program on failure.
void connect_rc(ibv_qp* qp, const Device& device, const RemoteEnd& remote, std::uint32_t psn,
                ibv_mtu mtu, std::uint8_t reads = 16);

}  // namespace softhca::bench
