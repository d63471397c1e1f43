// SPDX-License-Identifier: Apache-2.0

// The keys of [reliability]: the members of ReliabilityParameters that operators can set.
#include "daemon/configuration/schema/schema.hpp"

namespace softhca::configuration {
namespace {

using Reliability = ReliabilityParameters;

constexpr Key kReliabilityKeys[] = {
    {.name = "selective_repeat",
     .at = at<&Reliability::selective_repeat>,
     .doc = "false: all packets from the lost one on are sent again (go-back-N)"},
    {.name = "kept_packets",
     .at = at<&Reliability::kept_packets>,
     .range = {0, kMostOfAny},
     .refusal = kTables,
     .unit = "packets",
     .doc = "packets in the out-of-order buffer, of 4 KiB each once they are used; 0: it buffers "
            "none"},
    {.name = "out_of_order",
     .at = at<&Reliability::out_of_order>,
     .range = {0, kMostOutOfOrder},
     .unit = "packets",
     .doc = "of a queue pair: packets farther ahead are dropped; 0: all out-of-order packets are"},
};
constexpr Schema kReliability{
    .comment =
        "Packet loss between machines. Packets after a lost one are buffered until that one was "
        "sent again. To peers that buffer them too, only the missing packets are sent again. Other "
        "peers, like Soft-RoCE and adapters, are detected and get all packets from the lost one "
        "on. docs/reliability.md has more. A reload changes it for queue pairs that are connected "
        "from then on.",
    .keys = kReliabilityKeys};

}  // namespace

template <>
const Schema& schema_of<ReliabilityParameters>() {
  return kReliability;
}

}  // namespace softhca::configuration
