// Reads the table [congestion]; its keys are the members of CongestionParameters.
#pragma once

#include <string>

#include "daemon/base/congestion.hpp"
#include "daemon/resource/reader.hpp"

namespace softhca::resource {

CongestionParameters read_congestion(const Value& value, Problems& problems);

/// As the operator would write it.
const char* describe(CongestionMode mode);

/// Calls f(name, member) for each key that is a number or a switch: all but the mode.
template <class F>
void for_each_congestion_key(F&& f) {
  using P = CongestionParameters;
  f("min_time_between_cnps", &P::min_time_between_cnps);
  f("cnp_dscp", &P::cnp_dscp);
  f("cnp_802p_prio", &P::cnp_802p_prio);
  f("initial_alpha_value", &P::initial_alpha_value);
  f("dce_tcp_g", &P::dce_tcp_g);
  f("dce_tcp_rtt", &P::dce_tcp_rtt);
  f("rate_to_set_on_first_cnp", &P::rate_to_set_on_first_cnp);
  f("rate_reduce_monitor_period", &P::rate_reduce_monitor_period);
  f("rpg_gd", &P::rpg_gd);
  f("rpg_min_dec_fac", &P::rpg_min_dec_fac);
  f("rpg_min_rate", &P::rpg_min_rate);
  f("clamp_tgt_rate", &P::clamp_tgt_rate);
  f("clamp_tgt_rate_after_time_inc", &P::clamp_tgt_rate_after_time_inc);
  f("rpg_time_reset", &P::rpg_time_reset);
  f("rpg_byte_reset", &P::rpg_byte_reset);
  f("rpg_threshold", &P::rpg_threshold);
  f("rpg_ai_rate", &P::rpg_ai_rate);
  f("rpg_hai_rate", &P::rpg_hai_rate);
  f("rpg_max_rate", &P::rpg_max_rate);
}

}  // namespace softhca::resource
