// SPDX-License-Identifier: Apache-2.0

// Parameters for congested networks: ECN marks, congestion notification packets (CNP, InfiniBand
// specification annex A17) and DCQCN. Names and units are those of mlx5, so that operators can
// apply what they know. So are the defaults, unless a comment gives a reason for another value
// (docs/congestion.md).
#pragma once

#include <cstdint>

namespace softhca {

enum class CongestionMode : std::uint8_t {
  kOff,     ///< the adapter ignores marks
  kNotify,  ///< it answers marked packets with CNPs, and ignores received CNPs
  kOn,      ///< it also sends packets as ECN-capable, and CNPs slow down their sender
};

/// Parameters that the operator cannot change. Times in microseconds, rates in Mbit/s.
struct FixedCongestionParameters {
  // Notification point.
  std::uint32_t min_time_between_cnps = 50;  ///< of a queue pair; as published (hardware: 4)

  // Reaction point: alpha, the estimate of congestion, in 1/1024.
  std::uint32_t initial_alpha_value = 1023;
  std::uint32_t dce_tcp_g = 1019;  ///< weight of the old alpha in an update, in 1/1024
  /// Time between updates of alpha. As published, it is longer than the time between CNPs. Hardware
  /// sends CNPs every 4 and updates every 1; here 1 would forget a CNP before the next arrives.
  std::uint32_t dce_tcp_rtt = 55;

  // Decrease.
  std::uint32_t rate_to_set_on_first_cnp = 0;    ///< 0: rpg_max_rate, decreased once
  std::uint32_t rpg_min_rate = 1;                ///< the rate never goes below this
  std::uint32_t rate_reduce_monitor_period = 4;  ///< at most one decrease in this time
  std::uint32_t rpg_gd = 11;  ///< a decrease takes alpha (in 1/1024) / 2^rpg_gd of the rate
  std::uint32_t rpg_min_dec_fac = 50;  ///< percent of the rate that a decrease leaves at least
  /// True: each decrease lowers the target, too. As published; otherwise the first increase from
  /// half of rpg_max_rate exceeds by far what the path carries.
  bool clamp_tgt_rate = true;
  bool clamp_tgt_rate_after_time_inc = true;  ///< also after an increase by time

  // Increase.
  std::uint32_t rpg_time_reset = 300;  ///< time between increases by time
  /// Bytes between increases by bytes. This value and the next are as published; those of hardware,
  /// 32767 and 1, overshoot at the speeds of a software adapter.
  std::uint32_t rpg_byte_reset = 10'000'000;
  std::uint32_t rpg_threshold = 5;  ///< increases of a kind before fast recovery ends
  std::uint32_t rpg_ai_rate = 5;
  std::uint32_t rpg_hai_rate = 50;

  bool operator==(const FixedCongestionParameters&) const = default;
};

/// Times in microseconds, rates in Mbit/s.
struct CongestionParameters {
  CongestionMode mode = CongestionMode::kNotify;
  bool datagrams = true;  ///< slow down senders that lose many datagrams, in any mode
  std::uint8_t cnp_dscp = 48;
  /// The limit of a queue pair ends once it may send this fast. (In mlx5, 0 means the speed of the
  /// port; a software adapter has no fixed one.)
  std::uint32_t rpg_max_rate = 10000;
  FixedCongestionParameters fixed;

  bool operator==(const CongestionParameters&) const = default;
};

}  // namespace softhca
