// SPDX-License-Identifier: Apache-2.0

// Verbs objects that are destroyed where they go out of scope; it is a fault if that is refused.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "tests/system/verbs/stress/journal.hpp"

namespace softhca::stress {

inline constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                  IBV_ACCESS_MW_BIND;

template <auto end>
struct Destroy {
  template <class T>
  void operator()(T* object) const {
    if (const int error = end(object))
      complain(std::string("destroying: ") + std::strerror(error), __PRETTY_FUNCTION__);
  }
};

/// Templates need a name of external linkage.
inline int dealloc_mw(ibv_mw* window) { return ibv_dealloc_mw(window); }
inline int close_xrcd(ibv_xrcd* domain) { return ibv_close_xrcd(domain); }

using Context = std::unique_ptr<ibv_context, Destroy<ibv_close_device>>;
using Domain = std::unique_ptr<ibv_pd, Destroy<ibv_dealloc_pd>>;
using Region = std::unique_ptr<ibv_mr, Destroy<ibv_dereg_mr>>;
using Window = std::unique_ptr<ibv_mw, Destroy<dealloc_mw>>;
using Channel = std::unique_ptr<ibv_comp_channel, Destroy<ibv_destroy_comp_channel>>;
using CompletionQueue = std::unique_ptr<ibv_cq, Destroy<ibv_destroy_cq>>;
using SharedReceiveQueue = std::unique_ptr<ibv_srq, Destroy<ibv_destroy_srq>>;
using QueuePair = std::unique_ptr<ibv_qp, Destroy<ibv_destroy_qp>>;
using AddressHandle = std::unique_ptr<ibv_ah, Destroy<ibv_destroy_ah>>;
using XrcDomain = std::unique_ptr<ibv_xrcd, Destroy<close_xrcd>>;

/// An opened device and the address of its first port.
struct Device {
  explicit Device(const std::string& name);

  Context context;
  ibv_gid gid{};
};

struct Path {
  ibv_gid gid;
  std::uint32_t qpn;
  std::uint32_t psn;  ///< of the first packet that comes from there
};

void to_state(ibv_qp* qp, ibv_qp_state state);
/// For connected queue pairs: from RESET to RTS.
void bring_up(ibv_qp* qp, const Path& peer, std::uint32_t own_psn, ibv_mtu mtu,
              std::uint8_t reads_at_once);
/// For datagrams.
void bring_up(ibv_qp* qp, std::uint32_t qkey);
ibv_ah_attr route_to(const ibv_gid& gid);

}  // namespace softhca::stress
