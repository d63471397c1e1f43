// SPDX-License-Identifier: Apache-2.0

#include "daemon/port/roce_filter.hpp"

#include <linux/if_ether.h>
#include <sys/socket.h>

#include "daemon/port/roce_udp.hpp"

namespace softhca::port {
namespace {

constexpr std::uint32_t kProtocolIcmp6 = 58;

}  // namespace

/// Returns the filter. The comments number the instructions and name the targets of jumps, which
/// count the instructions to skip.
RoceFilter roce_filter(std::uint32_t bytes) {
  return {{
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),                     // 0: EtherType
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_ARP, 13, 0),      // 1: -> 15 take
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 6),        // 2: else -> 9
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 14 + 9),                 // 3: IPv4 protocol
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kProtocolUdp, 0, 11),   // 4: else -> 16 drop
      BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14),                    // 5: x = IPv4 header length
      BPF_STMT(BPF_LD | BPF_H | BPF_IND, 14 + 2),                 // 6: UDP destination port
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kRocePort, 7, 0),       // 7: -> 15 take
      BPF_JUMP(BPF_JMP | BPF_JA, 7, 0, 0),                        // 8: -> 16 drop
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 0, 6),      // 9: else -> 16 drop
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 14 + 6),                 // 10: IPv6 next header
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kProtocolIcmp6, 3, 0),  // 11: -> 15 take
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kProtocolUdp, 0, 3),    // 12: else -> 16 drop
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 14 + 40 + 2),            // 13: UDP destination port
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kRocePort, 0, 1),       // 14: else -> 16 drop
      BPF_STMT(BPF_RET | BPF_K, bytes),                           // 15: take
      BPF_STMT(BPF_RET | BPF_K, 0),                               // 16: drop
  }};
}

bool attach(int fd, const RoceFilter& filter) {
  const sock_fprog program{static_cast<unsigned short>(filter.size()),
                           const_cast<sock_filter*>(filter.data())};
  return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

}  // namespace softhca::port
