// Reliable queue pairs, made and connected.
#pragma once

#include "bench/verbs/endpoint.hpp"

namespace softhca::bench {

/// Ends the program when `error`, an errno, is not 0.
void check(int error, const char* what);

/// Where the work of a queue pair completes, and how much of it there may be.
struct RcQueues {
  ibv_cq* send_cq;
  ibv_cq* receive_cq;
  std::uint32_t sends, receives;
  ibv_srq* srq = nullptr;  ///< whose receives it takes instead of its own
};

/// In state INIT, open to remote writes and reads. Ends the program on failure.
ibv_qp* create_rc(const Device& device, const RcQueues& queues);
/// The same, both queues completing to `cq`.
inline ibv_qp* create_rc(const Device& device, ibv_cq* cq, std::uint32_t sends,
                         std::uint32_t receives) {
  return create_rc(device, {cq, cq, sends, receives});
}

struct RemoteEnd {
  std::uint32_t qpn, psn;
  ibv_gid gid;
};

/// To RTS with `reads` reads and atomics at once each way; sends for which there is no receive are
/// tried again for ever. Ends the program on failure.
void connect_rc(ibv_qp* qp, const Device& device, const RemoteEnd& remote, std::uint32_t psn,
                ibv_mtu mtu, std::uint8_t reads = 16);

}  // namespace softhca::bench
