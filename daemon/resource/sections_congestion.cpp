// The keys of [congestion]: the members of CongestionParameters.
#include "daemon/resource/schema.hpp"

namespace softhca::resource {
namespace {

using P = CongestionParameters;

constexpr std::uint64_t kLongest = 1u << 24;   ///< microseconds
constexpr std::uint64_t kFastest = 1'000'000;  ///< Mbit/s
constexpr std::array<std::string_view, 3> kModes = {"off", "notify", "on"};

constexpr Key kCongestionKeys[] = {
    {.name = "mode", .at = at<&P::mode>, .words = kModes},
    {.name = "datagrams",
     .at = at<&P::datagrams>,
     .doc = "they slow down where they are lost, whatever the mode"},
    {.name = "min_time_between_cnps",
     .at = at<&P::min_time_between_cnps>,
     .range = {0, kLongest},
     .unit = "µs",
     .doc = "of a queue pair"},
    {.name = "cnp_dscp", .at = at<&P::cnp_dscp>, .range = {0, 63}},
    {.name = "cnp_802p_prio",
     .at = at<&P::cnp_802p_prio>,
     .range = {0, 7},
     .doc = "on ports with a VLAN"},
    {.name = "initial_alpha_value",
     .at = at<&P::initial_alpha_value>,
     .range = {1, 1023},
     .doc = "of the estimate of congestion, in 1/1024"},
    {.name = "dce_tcp_g",
     .at = at<&P::dce_tcp_g>,
     .range = {0, 1023},
     .doc = "weight of the old estimate in the new one, in 1/1024"},
    {.name = "dce_tcp_rtt",
     .at = at<&P::dce_tcp_rtt>,
     .range = {1, 131071},
     .unit = "µs",
     .doc = "time between updates of the estimate"},
    {.name = "rate_to_set_on_first_cnp",
     .at = at<&P::rate_to_set_on_first_cnp>,
     .most_key = "rpg_max_rate",
     .hint = " (rpg_max_rate)",
     .unit = "Mbit/s",
     .doc = "0: rpg_max_rate, decreased"},
    {.name = "rate_reduce_monitor_period",
     .at = at<&P::rate_reduce_monitor_period>,
     .range = {1, kLongest},
     .unit = "µs",
     .doc = "one decrease in this time"},
    {.name = "rpg_gd",
     .at = at<&P::rpg_gd>,
     .range = {10, 15},
     .doc = "a decrease takes off this part: estimate * 1024 / 2^rpg_gd"},
    {.name = "rpg_min_dec_fac",
     .at = at<&P::rpg_min_dec_fac>,
     .range = {1, 100},
     .unit = "%",
     .doc = "a decrease leaves at least this percentage of the rate"},
    {.name = "rpg_min_rate",
     .at = at<&P::rpg_min_rate>,
     .range = {.least = 1},
     .most_key = "rpg_max_rate",
     .hint = " (rpg_max_rate)",
     .unit = "Mbit/s",
     .doc = "the rate never goes below this"},
    {.name = "clamp_tgt_rate",
     .at = at<&P::clamp_tgt_rate>,
     .doc = "each decrease lowers the rate to recover to"},
    {.name = "clamp_tgt_rate_after_time_inc",
     .at = at<&P::clamp_tgt_rate_after_time_inc>,
     .doc = "the first decrease after increases by time lowers it, too"},
    {.name = "rpg_time_reset",
     .at = at<&P::rpg_time_reset>,
     .range = {1, 131071},
     .unit = "µs",
     .doc = "time after which the rate increases"},
    {.name = "rpg_byte_reset",
     .at = at<&P::rpg_byte_reset>,
     .range = {1, 1u << 30},
     .unit = "bytes",
     .doc = "bytes after which the rate increases"},
    {.name = "rpg_threshold",
     .at = at<&P::rpg_threshold>,
     .range = {1, 31},
     .doc = "number of increases after which the rate to recover to rises"},
    {.name = "rpg_ai_rate",
     .at = at<&P::rpg_ai_rate>,
     .range = {1, kFastest},
     .unit = "Mbit/s",
     .doc = "rise of the rate to recover to, past rpg_threshold by time or bytes"},
    {.name = "rpg_hai_rate",
     .at = at<&P::rpg_hai_rate>,
     .range = {1, kFastest},
     .unit = "Mbit/s",
     .doc = "its rise, in multiples, past rpg_threshold by both time and bytes"},
    {.name = "rpg_max_rate",
     .at = at<&P::rpg_max_rate>,
     .range = {1, kFastest},
     .unit = "Mbit/s",
     .doc = "a queue pair (or datagrams to a peer) as fast as this is no longer held back"},
};
constexpr Schema kCongestion{
    .comment =
        "Congestion in the network. \"off\": ECN marks of switches are ignored. \"notify\": the "
        "sender of marked packets is told by congestion notification packets (CNP). \"on\": "
        "besides, packets of connected queue pairs, and datagrams to peers that tell how many "
        "have come, are sent as ECN-capable, and the CNPs of the peers slow them down (DCQCN). "
        "Names, units (microseconds, Mbit/s) and meanings are those "
        "of mlx5, where these are np_ and rp_ parameters; see docs/congestion.md. A reload changes "
        "all of it while programs run.",
    .keys = kCongestionKeys};

}  // namespace

template <>
const Schema& schema_of<CongestionParameters>() {
  return kCongestion;
}

}  // namespace softhca::resource
