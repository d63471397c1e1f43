// How the adapter behaves in a congested network: ECN marks, congestion notification packets (CNP,
// InfiniBand specification annex A17) and DCQCN. Names and units are those of mlx5, so that what
// operators know holds here too; so are the defaults, unless a reason for another value stands
// beside it (docs/congestion.md).
#pragma once

#include <cstdint>

namespace softhca {

enum class CongestionMode : std::uint8_t {
  kOff,     ///< marks are ignored
  kNotify,  ///< marked packets are answered with CNPs; CNPs received are ignored
  kOn,      ///< besides, packets are sent as ECN-capable, and CNPs slow their sender down
};

/// Times in microseconds, rates in Mbit/s.
struct CongestionParameters {
  CongestionMode mode = CongestionMode::kNotify;
  bool datagrams = true;  ///< slow down where many of them are lost, whatever the mode

  // Notification point.
  std::uint32_t min_time_between_cnps = 50;  ///< of a queue pair; as published, hardware uses 4
  std::uint8_t cnp_dscp = 48;
  std::uint8_t cnp_802p_prio = 6;  ///< on ports with a VLAN

  // Reaction point: alpha, the estimate of congestion, in 1/1024.
  std::uint32_t initial_alpha_value = 1023;
  std::uint32_t dce_tcp_g = 1019;  ///< weight of what alpha was before, in 1/1024
  /// Time between updates of alpha. Longer than the time between CNPs, as published: 1, the default
  /// of hardware that sends them every 4, would forget the last CNP before the next one.
  std::uint32_t dce_tcp_rtt = 55;

  // Decrease.
  std::uint32_t rate_to_set_on_first_cnp = 0;    ///< 0: rpg_max_rate, decreased
  std::uint32_t rate_reduce_monitor_period = 4;  ///< at most one decrease in it
  std::uint32_t rpg_gd = 11;                     ///< by alpha in 1/1024, divided by 2^rpg_gd
  std::uint32_t rpg_min_dec_fac = 50;            ///< percent of the rate that always remain
  std::uint32_t rpg_min_rate = 1;
  /// Each decrease lowers the target, too. As published; without it the first step back from half
  /// of rpg_max_rate leads far beyond what the path carries.
  bool clamp_tgt_rate = true;
  bool clamp_tgt_rate_after_time_inc = true;  ///< also the first after an increase by time

  // Increase.
  std::uint32_t rpg_time_reset = 300;  ///< between increases by time
  /// Bytes between increases by bytes. Both values are as published: hardware's 32767 and 1
  /// overshoot at the speeds of a software adapter.
  std::uint32_t rpg_byte_reset = 10'000'000;
  std::uint32_t rpg_threshold = 5;  ///< increases of a kind that are fast recovery
  std::uint32_t rpg_ai_rate = 5;
  std::uint32_t rpg_hai_rate = 50;
  /// A queue pair is no longer held back once it may send this fast. (In mlx5, 0 means the speed of
  /// the port; a software adapter has no fixed one.)
  std::uint32_t rpg_max_rate = 10000;

  bool operator==(const CongestionParameters&) const = default;
};

}  // namespace softhca
