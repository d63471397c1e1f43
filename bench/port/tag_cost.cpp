// SPDX-License-Identifier: Apache-2.0

// softhca-tag-cost: the cost of authenticating a packet with a key, and of its plain ICRC. For each
// size, it measures both in turns, so that other load affects both.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "daemon/roce/wire/icrc.hpp"
#include "daemon/roce/wire/packet_tag.hpp"

namespace {

using namespace softhca;
using Clock = std::chrono::steady_clock;

constexpr unsigned kTurns = 101;
constexpr unsigned kPackets = 500;  // in a turn

/// Returns the nanoseconds of a call.
template <class F>
double time_of(F&& f) {
  const auto start = Clock::now();
  for (unsigned i = 0; i < kPackets; ++i) f();
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count() / kPackets;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Returns an RC packet: base transport header, payload and pad.
std::vector<std::byte> packet_of(std::size_t payload) {
  const wire::FrameTemplate path(
      {.source = Gid::from_ipv4(0x0a000001), .destination = Gid::from_ipv4(0x0a000002)});
  wire::Headers h;
  h.opcode = wire::raw(wire::Opcode::kRcSendOnly);
  std::vector<std::byte> frame(path.frame_length(h.opcode, payload));
  wire::FrameBuilder builder(frame, path, h, payload, 0);
  std::ranges::fill(builder.payload(), std::byte{0x5a});
  builder.finish();
  return {frame.begin() + static_cast<std::ptrdiff_t>(path.link_length()),
          frame.end() - wire::kIcrcLength};
}

}  // namespace

int main() {
  PeerSecret secret;
  for (std::size_t i = 0; i < secret.size(); ++i) secret[i] = std::byte(i);
  const auto key = wire::PacketKey::make(secret);
  if (!key) {
    std::fprintf(stderr, "%s\n", key.error().message.c_str());
    return 1;
  }
  std::uint32_t all = 0;  // used, so that the compiler removes no call
  std::printf("payload   ICRC, ns    tag, ns    ratio    more, ns\n");
  for (const std::size_t payload : {0u, 64u, 256u, 1024u, 4096u}) {
    const std::vector<std::byte> packet = packet_of(payload);
    const std::span<const std::byte> network(packet.data(), wire::kIpv4Length + wire::kUdpLength);
    const std::span<const std::byte> transport(packet.begin() + network.size(), packet.end());
    std::vector<double> plain, sealed;
    for (unsigned turn = 0; turn < kTurns; ++turn) {
      plain.push_back(time_of([&] { all += wire::icrc(network, transport); }));
      sealed.push_back(time_of([&] { all += wire::TagSum(**key, network, transport).finish(); }));
    }
    const double icrc = median(plain), tag = median(sealed);
    std::printf("%7zu %10.1f %10.1f %8.1f %11.1f\n", payload, icrc, tag, tag / icrc, tag - icrc);
  }
  return all == 1 ? 2 : 0;
}
