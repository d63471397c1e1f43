// Reliable queue pairs, made and connected.
#pragma once

#include "bench/verbs/endpoint.hpp"

namespace softhca::bench {

/// Ends the program when `error`, an errno, is not 0.
void check(int error, const char* what);

/// In state INIT, open to remote writes and reads, both its queues completing to `cq`. Ends the
/// program on failure.
ibv_qp* create_rc(const Device& device, ibv_cq* cq, std::uint32_t sends, std::uint32_t receives);

struct RemoteEnd {
  std::uint32_t qpn, psn;
  ibv_gid gid;
};

/// To RTS; sends for which there is no receive are tried again for ever. Ends the program on
/// failure.
void connect_rc(ibv_qp* qp, const Device& device, const RemoteEnd& remote, std::uint32_t psn,
                ibv_mtu mtu);

}  // namespace softhca::bench
