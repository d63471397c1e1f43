// SPDX-License-Identifier: Apache-2.0

// The keys of [congestion]: the members of CongestionParameters that operators can set.
#include "daemon/configuration/schema/schema.hpp"

namespace softhca::configuration {
namespace {

using P = CongestionParameters;

constexpr std::uint64_t kFastest = 1'000'000;  ///< Mbit/s
constexpr std::array<std::string_view, 3> kModes = {"off", "notify", "on"};

constexpr Key kCongestionKeys[] = {
    {.name = "mode", .at = at<&P::mode>, .words = kModes},
    {.name = "datagrams",
     .at = at<&P::datagrams>,
     .doc = "senders that lose many datagrams slow down, in any mode"},
    {.name = "cnp_dscp",
     .at = at<&P::cnp_dscp>,
     .range = {0, 63},
     .doc = "of CNPs; on ports with a VLAN, an eighth of it is their priority"},
    {.name = "rpg_max_rate",
     .at = at<&P::rpg_max_rate>,
     .range = {1, kFastest},
     .unit = "Mbit/s",
     .doc = "at this rate a queue pair (or datagrams to a peer) is no longer limited"},
};
constexpr Schema kCongestion{
    .comment =
        "Congestion in the network. \"off\": the engine ignores ECN marks of switches. \"notify\": "
        "it answers marked packets with congestion notification packets (CNP). \"on\": it also "
        "sends packets as ECN-capable, and slows down when peers send CNPs (DCQCN). These are "
        "packets of connected queue pairs, and datagrams to peers that report how many have "
        "arrived. Names, units and meanings are those of mlx5's np_ and rp_ parameters; the other "
        "parameters of DCQCN are fixed (docs/congestion.md). A reload changes all of it while "
        "programs run.",
    .keys = kCongestionKeys};

}  // namespace

template <>
const Schema& schema_of<CongestionParameters>() {
  return kCongestion;
}

}  // namespace softhca::configuration
