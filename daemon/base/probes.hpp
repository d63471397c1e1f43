// SPDX-License-Identifier: Apache-2.0

// Static probes (USDT) on the path of a command, for bpftrace, perf and SystemTap: docs/probes.md.
// Each is one no-operation instruction until a tracer attaches. Without <sys/sdt.h> there are none.
#pragma once

#include <cstdint>

#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#else
#define DTRACE_PROBE2(provider, name, a, b) ((void)(a), (void)(b))
#define DTRACE_PROBE3(provider, name, a, b, c) ((void)(a), (void)(b), (void)(c))
#endif

namespace softhca::probes {

// `sequence`: sequence number of the command in its send queue, from 0, free-running over 32 bits.

/// A doorbell announced the commands from `first` up to, not including, `end`.
inline void command_announced(std::uint32_t qpn, std::uint32_t first, std::uint32_t end) {
  DTRACE_PROBE3(softhca, command_announced, qpn, first, end);
}
/// The command is in a PCB and in a kick list. Fires again if the engine gave the command back to
/// its send queue.
inline void command_kicked(std::uint32_t qpn, std::uint32_t sequence) {
  DTRACE_PROBE2(softhca, command_kicked, qpn, sequence);
}
/// The command has its credits and goes to its transport. Fires again as command_kicked() does.
inline void command_started(std::uint32_t qpn, std::uint32_t sequence) {
  DTRACE_PROBE2(softhca, command_started, qpn, sequence);
}
/// The first packet of the command was sent, or the copy of a local delivery begins. Fires again
/// for a retransmission.
inline void command_transmitted(std::uint32_t qpn, std::uint32_t sequence) {
  DTRACE_PROBE2(softhca, command_transmitted, qpn, sequence);
}
/// `status`: that of the completion (enum ibv_wc_status), even if no completion is written.
inline void command_completed(std::uint32_t qpn, std::uint32_t sequence, std::uint32_t status) {
  DTRACE_PROBE3(softhca, command_completed, qpn, sequence, status);
}

}  // namespace softhca::probes
