// Static probes (USDT) where a command goes on, for bpftrace, perf and SystemTap: docs/probes.md.
// Each is one no-operation instruction until somebody looks. Without <sys/sdt.h> there are none.
#pragma once

#include <cstdint>

#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#else
#define DTRACE_PROBE2(provider, name, a, b) ((void)(a), (void)(b))
#define DTRACE_PROBE3(provider, name, a, b, c) ((void)(a), (void)(b), (void)(c))
#endif

namespace softhca::probes {

// `sequence`: of the command in its send queue, from 0, free-running over 32 bits.

/// A doorbell says that the commands from `first` to before `end` are there.
inline void command_announced(std::uint32_t qpn, std::uint32_t first, std::uint32_t end) {
  DTRACE_PROBE3(softhca, command_announced, qpn, first, end);
}
/// It is in a PCB and in a kick list. Again after it was given back to its send queue.
inline void command_kicked(std::uint32_t qpn, std::uint32_t sequence) {
  DTRACE_PROBE2(softhca, command_kicked, qpn, sequence);
}
/// It has its credits, and goes to its transport. Again likewise.
inline void command_started(std::uint32_t qpn, std::uint32_t sequence) {
  DTRACE_PROBE2(softhca, command_started, qpn, sequence);
}
/// Its first packet has gone; local delivery: its copy begins. Again when it is sent again.
inline void command_transmitted(std::uint32_t qpn, std::uint32_t sequence) {
  DTRACE_PROBE2(softhca, command_transmitted, qpn, sequence);
}
/// `status`: of its completion, as enum ibv_wc_status, whether that is written or not wanted.
inline void command_completed(std::uint32_t qpn, std::uint32_t sequence, std::uint32_t status) {
  DTRACE_PROBE3(softhca, command_completed, qpn, sequence, status);
}

}  // namespace softhca::probes
