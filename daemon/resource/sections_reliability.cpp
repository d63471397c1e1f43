// The keys of [reliability]: the members of ReliabilityParameters.
#include "daemon/resource/schema.hpp"

namespace softhca::resource {
namespace {

using Reliability = ReliabilityParameters;

constexpr Key kReliabilityKeys[] = {
    {.name = "selective_repeat",
     .at = at<&Reliability::selective_repeat>,
     .doc = "false: all from the lost packet on is sent again (go-back-N)"},
    {.name = "kept_packets",
     .at = at<&Reliability::kept_packets>,
     .range = {0, kMostOfAny},
     .refusal = kTables,
     .unit = "packets",
     .doc = "room for packets ahead of their turn, of 4 KiB each once they are used; 0: they are "
            "dropped"},
    {.name = "out_of_order",
     .at = at<&Reliability::out_of_order>,
     .range = {0, kMostOutOfOrder},
     .unit = "packets",
     .doc = "of a queue pair: those farther ahead are dropped; 0: all are"},
};
constexpr Schema kReliability{
    .comment =
        "Loss between machines. What comes behind a lost packet is kept until that one has been "
        "sent again, and only what is missing is sent again, to peers that keep the rest, too. "
        "Others, like Soft-RoCE and adapters, are found out and sent all from the lost packet on. "
        "docs/reliability.md has more. A reload changes it for queue pairs that are connected from "
        "then on.",
    .keys = kReliabilityKeys};

}  // namespace

template <>
const Schema& schema_of<ReliabilityParameters>() {
  return kReliability;
}

}  // namespace softhca::resource
