// SPDX-License-Identifier: Apache-2.0

// Traffic of a port, and the neighbours and peers that the port knows.
#include "daemon/engine/packets/peer_authentication.hpp"
#include "daemon/engine/packets/peer_table.hpp"
#include "daemon/engine/ports/port_binding.hpp"
#include "daemon/operate/metrics/collect.hpp"

namespace softhca::metrics {
namespace {

void add_neighbours(Families& out, const Labels& labels, const engine::PortBinding& binding) {
  const auto count = [&](const char* name, const char* help, const Counter& counter) {
    out.counter(name, help, labels, static_cast<double>(counter.value()));
  };
  const auto& n = binding.neighbours->counters();
  count("softhca_neighbour_requests_total", "ARP requests and neighbour solicitations sent.",
        n.requests);
  count("softhca_neighbour_requests_suppressed_total",
        "Requests for link addresses delayed by their rate limit.", n.suppressed);
  count("softhca_neighbour_answers_total", "ARP replies and neighbour advertisements sent.",
        n.answers);
  count("softhca_neighbour_learned_total", "Link addresses that became known or changed.",
        n.learned);
  count("softhca_neighbour_lost_total", "Neighbours in use that stopped replying.", n.lost);
  count("softhca_neighbour_evicted_total", "Neighbours removed to make room for others.",
        n.evicted);
  count("softhca_neighbour_refused_total",
        "Neighbours not resolved: the table is full, and too many neighbours of this user do not "
        "reply.",
        n.refused);
  count("softhca_neighbour_conflicts_total", "Claims of other hosts to an address of this daemon.",
        n.conflicts);
}

}  // namespace

void add_port(Families& out, const engine::PortBinding& binding) {
  const Labels labels{{"port", binding.name}};
  const auto count = [&](const char* name, const char* help, std::uint64_t value) {
    out.counter(name, help, labels, static_cast<double>(value));
  };
  out.gauge("softhca_port_up", "1 if the port has a link.", labels,
            binding.port->link_up() ? 1 : 0);
  const port::PortCounters c = binding.port->counters();
  count("softhca_port_frames_received_total", "Frames received.", c.rx_frames);
  count("softhca_port_frames_transmitted_total", "Frames transmitted.", c.tx_frames);
  count("softhca_port_data_received_bytes_total", "Bytes of frames received.", c.rx_bytes);
  count("softhca_port_data_transmitted_bytes_total", "Bytes of frames transmitted.", c.tx_bytes);
  count("softhca_port_receive_missed_total", "Received frames that the device dropped.",
        c.rx_missed);
  count("softhca_port_transmit_dropped_total", "Frames that the device refused to send.",
        c.tx_dropped);
  count("softhca_port_trains_received_total", "Trains among the frames received.", c.rx_trains);
  count("softhca_port_trains_transmitted_total", "Trains among the frames transmitted.",
        c.tx_trains);
  count("softhca_port_trains_refused_total", "Trains that had to be sent packet by packet.",
        c.trains_refused);
  count("softhca_port_unreachable_total",
        "Packets that ICMP reported as undelivered, on a port with a socket.", c.unreachable);
  count("softhca_port_path_too_narrow_total",
        "Packets longer than the MTU of a link on their path, on a port with a socket.",
        c.path_too_narrow);
  count("softhca_port_weakly_checked_total",
        "Packets accepted by a check of only 16 bits of the ICRC.",
        binding.drops.weakly_checked.value());
  count("softhca_port_unresolved_total", "Packets to a neighbour that does not answer.",
        binding.drops.unresolved.value());
  count("softhca_port_no_buffer_total", "Sends delayed because no frame buffer was free.",
        binding.drops.no_buffer.value());
  add_neighbours(out, labels, binding);
  const auto drop = [&](const char* reason, const Counter& counter) {
    out.counter("softhca_port_dropped_packets_total", "Received RoCE packets dropped.",
                {{"port", binding.name}, {"reason", reason}}, static_cast<double>(counter.value()));
  };
  std::uint64_t foreign = 0;
  for (std::size_t i = 1; i < binding.drops.parse.size(); ++i) {
    const auto reason = static_cast<wire::DropReason>(i);
    if (wire::is_foreign(reason)) {
      foreign += binding.drops.parse[i].value();
    } else {
      drop(wire::name(reason), binding.drops.parse[i]);
    }
  }
  count("softhca_port_foreign_frames_total", "Frames that are not RoCE packets.", foreign);
  for (std::size_t i = 0; i < binding.drops.frame.size(); ++i)
    drop(engine::name_of(static_cast<engine::FrameDrop>(i)), binding.drops.frame[i]);
}

void add_peers(Families& out, const engine::PeerAuthentication& authentication) {
  if (authentication.table() == nullptr) return;
  for (const auto& peer : authentication.table()->peers()) {
    const auto taken = [&](std::string key, std::uint64_t packets) {
      out.counter("softhca_peer_packets_total",
                  "Packets accepted from hosts that share keys, by key.",
                  {{"peer", peer->name()}, {"key", std::move(key)}}, static_cast<double>(packets));
    };
    for (std::size_t i = 0; i < peer->key_count(); ++i)
      taken(std::to_string(i + 1), peer->taken_with(i));
    taken("plain", peer->taken_plain());
  }
}

}  // namespace softhca::metrics
