// The keys of [reliability]: the members of ReliabilityParameters.
#include "daemon/resource/schema.hpp"

namespace softhca::resource {
namespace {

using Reliability = ReliabilityParameters;
using Flight = FlightParameters;

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
    {.name = "initial_flight",
     .at = at<&Reliability::flight, &Flight::initial_flight>,
     .range = {1, kMostInFlight},
     .unit = "packets",
     .doc = "sent before anything is acknowledged; then the flight doubles until some are lost"},
    {.name = "flight_steps",
     .at = at<&Reliability::flight, &Flight::flight_steps>,
     .range = {1, kMostInFlight},
     .unit = "packets",
     .doc = "acknowledged ones after which a flight that had losses takes one more, or as many as "
            "it has, if these are more"},
    {.name = "borne_losses",
     .at = at<&Reliability::flight, &Flight::borne_losses>,
     .range = {1, kMostInFlight},
     .unit = "packets",
     .doc = "one in so many may be lost, as on a bad link; more halve the flight"},
    {.name = "queued_packets",
     .at = at<&Reliability::flight, &Flight::queued_packets>,
     .range = {1, kMostInFlight},
     .unit = "packets",
     .doc = "if the round-trip time says that so many of a flight wait in a queue, each loss "
            "halves it"},
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
