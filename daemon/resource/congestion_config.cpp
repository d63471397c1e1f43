#include "daemon/resource/congestion_config.hpp"

namespace softhca::resource {
namespace {

constexpr std::uint32_t kLongest = 1u << 24;   ///< microseconds
constexpr std::uint32_t kFastest = 1'000'000;  ///< Mbit/s

void read_mode(Reader& reader, CongestionMode& mode) {
  std::string word = describe(mode);
  word = word.substr(1, word.size() - 2);
  reader.string("mode", word);
  for (const auto known : {CongestionMode::kOff, CongestionMode::kNotify, CongestionMode::kOn}) {
    if ('"' + word + '"' != describe(known)) continue;
    mode = known;
    return;
  }
  reader.complain("mode", "must be \"off\", \"notify\" or \"on\"");
}

}  // namespace

const char* describe(CongestionMode mode) {
  switch (mode) {
    case CongestionMode::kOff:
      return "\"off\"";
    case CongestionMode::kNotify:
      break;
    case CongestionMode::kOn:
      return "\"on\"";
  }
  return "\"notify\"";
}

CongestionParameters read_congestion(const Value& value, Problems& problems) {
  CongestionParameters p;
  Reader reader(value, "congestion", problems);
  read_mode(reader, p.mode);
  reader.integer("min_time_between_cnps", p.min_time_between_cnps, 0, kLongest);
  reader.integer("cnp_dscp", p.cnp_dscp, 0, 63);
  reader.integer("cnp_802p_prio", p.cnp_802p_prio, 0, 7);
  reader.integer("initial_alpha_value", p.initial_alpha_value, 1, 1023);
  reader.integer("dce_tcp_g", p.dce_tcp_g, 0, 1023);
  reader.integer("dce_tcp_rtt", p.dce_tcp_rtt, 1, 131071);
  reader.integer("rpg_max_rate", p.rpg_max_rate, 1, kFastest);
  reader.integer("rate_to_set_on_first_cnp", p.rate_to_set_on_first_cnp, 0, p.rpg_max_rate,
                 " (rpg_max_rate)");
  reader.integer("rate_reduce_monitor_period", p.rate_reduce_monitor_period, 1, kLongest);
  reader.integer("rpg_gd", p.rpg_gd, 10, 15);
  reader.integer("rpg_min_dec_fac", p.rpg_min_dec_fac, 1, 100);
  reader.integer("rpg_min_rate", p.rpg_min_rate, 1, p.rpg_max_rate, " (rpg_max_rate)");
  reader.boolean("clamp_tgt_rate", p.clamp_tgt_rate);
  reader.boolean("clamp_tgt_rate_after_time_inc", p.clamp_tgt_rate_after_time_inc);
  reader.integer("rpg_time_reset", p.rpg_time_reset, 1, 131071);
  reader.integer("rpg_byte_reset", p.rpg_byte_reset, 1, 1u << 30);
  reader.integer("rpg_threshold", p.rpg_threshold, 1, 31);
  reader.integer("rpg_ai_rate", p.rpg_ai_rate, 1, kFastest);
  reader.integer("rpg_hai_rate", p.rpg_hai_rate, 1, kFastest);
  reader.finish();
  return p;
}

}  // namespace softhca::resource
