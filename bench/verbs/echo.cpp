// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "bench/verbs/sides.hpp"

namespace softhca::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// The times at which the first side sent what is on the way, and those of the echoes.
class Stopwatch {
 public:
  /// `times` null: measures nothing.
  Stopwatch(std::uint32_t in_flight, std::vector<double>* times)
      : sent_at_(in_flight), times_(times) {}
  void note_sent() {
    if (times_) sent_at_[sent_++ % sent_at_.size()] = Clock::now();
  }
  void note_received() {
    if (!times_) return;
    const auto took = Clock::now() - sent_at_[received_++ % sent_at_.size()];
    times_->push_back(std::chrono::duration<double>(took).count());
  }

 private:
  std::vector<Clock::time_point> sent_at_;
  std::vector<double>* times_;
  std::uint64_t sent_ = 0, received_ = 0;
};

}  // namespace

void play_echo(Endpoint& endpoint, const TestSpec& spec, bool first, std::vector<double>* times) {
  Stopwatch watch(spec.depth, times);
  std::uint64_t wanted = first ? std::min(spec.depth, spec.iterations) : 0;  // to be sent by now
  std::uint64_t posted = 0, completed = 0, received = 0;
  while (received < spec.iterations || completed < spec.iterations) {
    for (; posted < wanted && posted - completed < spec.depth; ++posted) {
      watch.note_sent();
      endpoint.post(0, 1);
    }
    const Endpoint::Messages messages = endpoint.poll_messages();
    completed += messages.sent;
    received += messages.received;
    for (std::uint32_t i = 0; i < messages.received; ++i) watch.note_received();
    wanted = std::min<std::uint64_t>(wanted + messages.received, spec.iterations);
    const bool found = messages.sent + messages.received != 0;
    if (!found && posted == wanted && received < spec.iterations) endpoint.await_receive();
  }
}

void play_tcp_echo(Peer& peer, const TestSpec& spec, bool first, std::vector<double>* times) {
  Stopwatch watch(spec.depth, times);
  const std::uint64_t size = spec.size, total = spec.iterations * size;
  const std::vector<char> message(size);
  std::vector<char> arrived(std::max<std::size_t>(size, 64 << 10));
  std::uint64_t wanted = first ? std::min(spec.depth, spec.iterations) * size : 0;
  std::uint64_t sent = 0, received = 0;  // bytes, as `wanted`
  std::uint64_t begun = 0;               // messages
  while (received < total || sent < total) {
    while (sent < wanted) {
      if (begun * size == sent) {
        watch.note_sent();
        ++begun;
      }
      const std::size_t n = peer.send_some(message.data() + sent % size, size - sent % size);
      sent += n;
      if (n == 0) break;
    }
    if (sent < wanted) peer.await_any();
    if (received == total || (sent < wanted && !peer.readable())) continue;
    const std::uint64_t before = received / size;
    received += peer.receive_some(arrived.data(), std::min(arrived.size(), total - received));
    for (std::uint64_t i = before; i < received / size; ++i) {
      watch.note_received();
      if (wanted < total) wanted += size;
    }
  }
}

}  // namespace softhca::bench
