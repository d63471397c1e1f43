// SPDX-License-Identifier: Apache-2.0

// The counters of a port of the daemon. Those of the port of a tenant's device are in
// device_port.hpp.
#pragma once

#include "daemon/counters/counter_table.hpp"
#include "daemon/engine/ports/port_binding.hpp"

namespace softhca::counters {

using engine::PortBinding;
using engine::PortDropCounters;
using neighbour::NeighbourCounters;
using port::PortCounters;

inline constexpr Row<PortBinding> kLink[] = {
    {"softhca_port_up", "1 if the port has a link and is not set down.", at<&PortBinding::link_up>},
};

inline constexpr Row<PortCounters> kPort[] = {
    {"softhca_port_frames_received_total", "Frames received.", at<&PortCounters::rx_frames>,
     json("rx_frames")},
    {"softhca_port_frames_transmitted_total", "Frames transmitted.", at<&PortCounters::tx_frames>,
     json("tx_frames")},
    {"softhca_port_data_received_bytes_total", "Bytes of frames received.",
     at<&PortCounters::rx_bytes>, json("rx_bytes")},
    {"softhca_port_data_transmitted_bytes_total", "Bytes of frames transmitted.",
     at<&PortCounters::tx_bytes>, json("tx_bytes")},
    {"softhca_port_receive_missed_total", "Received frames that the device dropped.",
     at<&PortCounters::rx_missed>, json("rx_missed")},
    {"softhca_port_transmit_dropped_total", "Frames that the device refused to send.",
     at<&PortCounters::tx_dropped>, json("tx_dropped")},
    {"softhca_port_trains_received_total", "Trains among the frames received.",
     at<&PortCounters::rx_trains>},
    {"softhca_port_trains_transmitted_total", "Trains among the frames transmitted.",
     at<&PortCounters::tx_trains>},
    {"softhca_port_trains_refused_total", "Trains that had to be sent packet by packet.",
     at<&PortCounters::trains_refused>},
    {"softhca_port_unreachable_total",
     "Packets that ICMP reported as undelivered, on a port with a socket.",
     at<&PortCounters::unreachable>},
    {"softhca_port_path_too_narrow_total",
     "Packets longer than the MTU of a link on their path, on a port with a socket.",
     at<&PortCounters::path_too_narrow>},
};

inline std::uint64_t parse_drops(const PortDropCounters& drops, std::size_t reason) {
  return drops.parse[reason].value();
}
/// Returns null for frames that are not RoCE packets.
inline const char* parse_drop_name(std::size_t index) {
  const auto reason = static_cast<wire::DropReason>(index);
  return wire::is_foreign(reason) ? nullptr : wire::name(reason);
}
inline constexpr Values<PortDropCounters> kMalformed{
    parse_drops, 1, static_cast<std::size_t>(wire::DropReason::kCount), parse_drop_name};

inline constexpr Row<PortDropCounters> kPortDrops[] = {
    {"softhca_port_weakly_checked_total",
     "Packets accepted by a check of only 16 bits of the ICRC.",
     at<&PortDropCounters::weakly_checked>},
    {"softhca_port_unresolved_total", "Packets to a neighbour that does not answer.",
     at<&PortDropCounters::unresolved>},
    {"softhca_port_no_buffer_total", "Sends delayed because no frame buffer was free.",
     at<&PortDropCounters::no_buffer>},
    {"softhca_port_foreign_frames_total",
     "Frames that are not RoCE packets.",
     {[](const PortDropCounters& drops, std::size_t) {
       std::uint64_t sum = 0;
       for (std::size_t i = kMalformed.first; i < kMalformed.end; ++i)
         if (parse_drop_name(i) == nullptr) sum += parse_drops(drops, i);
       return sum;
     }}},
    {"softhca_port_dropped_packets_total", "Received RoCE packets dropped.", kMalformed,
     label("reason")},
    {"softhca_port_dropped_packets_total", kSame, each<engine::FrameDrop, &PortDropCounters::frame>,
     label("reason")},
};

inline constexpr Row<NeighbourCounters> kNeighbours[] = {
    {"softhca_neighbour_requests_total", "ARP requests and neighbour solicitations sent.",
     at<&NeighbourCounters::requests>},
    {"softhca_neighbour_requests_suppressed_total",
     "Requests for link addresses delayed by their rate limit.",
     at<&NeighbourCounters::suppressed>},
    {"softhca_neighbour_answers_total", "ARP replies and neighbour advertisements sent.",
     at<&NeighbourCounters::answers>},
    {"softhca_neighbour_learned_total", "Link addresses that became known or changed.",
     at<&NeighbourCounters::learned>},
    {"softhca_neighbour_lost_total", "Neighbours in use that stopped replying.",
     at<&NeighbourCounters::lost>},
    {"softhca_neighbour_evicted_total", "Neighbours removed to make room for others.",
     at<&NeighbourCounters::evicted>},
    {"softhca_neighbour_refused_total",
     "Neighbours not resolved: the table is full, and too many neighbours of this user do not "
     "reply.",
     at<&NeighbourCounters::refused>},
    {"softhca_neighbour_conflicts_total", "Claims of other hosts to an address of this daemon.",
     at<&NeighbourCounters::conflicts>},
};

/// Calls f(table, structure) for each table of a port.
template <class F>
void for_each_table(const PortBinding& binding, F&& f) {
  f(kLink, binding);
  f(kPort, binding.port->counters());
  f(kPortDrops, binding.drops);
  f(kNeighbours, binding.neighbours->counters());
}

}  // namespace softhca::counters
