// SPDX-License-Identifier: Apache-2.0

#include "bench/verbs/sides.hpp"

namespace softhca::bench {
namespace {

/// Receives sends until the client reports that it is done.
void receive_sends(Endpoint& endpoint, const Peer& peer) {
  ibv_wc completions[32];
  for (unsigned polls = 0; polls % 1024 != 0 || !peer.readable(); ++polls) {
    const int n = endpoint.poll(completions, 32);
    for (int i = 0; i < n; ++i)
      endpoint.post_receives(static_cast<std::uint32_t>(completions[i].wr_id), 1);
  }
}

void take_part(const Device& device, const TestSpec& spec, Peer& peer) {
  if (spec.measure == Measure::kTcpEcho) return play_tcp_echo(peer, spec, false, nullptr);
  Endpoint endpoint(device, spec, peer);
  // Twice the messages in flight, as a send may be acknowledged before its buffer is posted again.
  if (spec.operation == Operation::kSend)
    for (std::uint32_t qp = 0; qp < spec.queue_pairs; ++qp)
      endpoint.post_receives(qp, 2 * spec.depth);
  peer.send('r');
  peer.receive<char>();
  if (spec.measure == Measure::kLatency && spec.operation != Operation::kRead)
    play_ping_pong(endpoint, spec, /*first=*/false, nullptr);
  else if (spec.measure == Measure::kEcho)
    play_echo(endpoint, spec, /*first=*/false, nullptr);
  else if (spec.operation == Operation::kSend)
    receive_sends(endpoint, peer);
  peer.receive<char>();
}

}  // namespace

void serve(const Device& device, Peer& peer) {
  peer.send(device.active_mtu());
  for (;;) {
    const auto spec = peer.receive<TestSpec>();
    if (spec.measure == Measure::kEnd) return;
    take_part(device, spec, peer);
  }
}

}  // namespace softhca::bench
