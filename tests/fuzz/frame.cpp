// SPDX-License-Identifier: Apache-2.0

// A frame from the wire through every parser there is. What a parser accepts says all that is in
// it: a frame built from the parsed form alone parses to the same.
#include "daemon/roce/wire/frame.hpp"

#include "daemon/base/endian.hpp"
#include "daemon/roce/wire/arp_nd.hpp"
#include "daemon/roce/wire/hidden_identification.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/unit/roce/wire/rebuild.hpp"

namespace softhca::wire {
namespace {

using fuzz::require;
using test::Bytes;

constexpr MacAddress kOurs{{2, 0, 0, 0, 0, 1}};

void check_resolution(const Bytes& frame) {
  std::array<std::byte, kMaxResolutionFrame> buffer;
  const auto arp = parse_arp(frame);
  if (arp && !arp->target.is_multicast()) {  // no host owns a multicast address
    require(arp->sender.is_ipv4() && arp->target.is_ipv4(), "ARP is about IPv4");
    const std::size_t length = build_arp_reply({kOurs, arp->vlan, arp->target}, *arp, buffer);
    const auto answer = parse_arp({buffer.data(), length});
    require(answer && answer->sender == arp->target && answer->target == arp->sender,
            "an ARP reply says what was asked");
  }
  if (const auto neighbour = parse_neighbour(frame); neighbour && !neighbour->is_advertisement) {
    const std::size_t length =
        build_advertisement({kOurs, neighbour->vlan, neighbour->target}, *neighbour, buffer);
    const auto answer = parse_neighbour({buffer.data(), length});
    require(answer && answer->is_advertisement && answer->target == neighbour->target,
            "an advertisement says what was asked");
  }
}

void require_same(const ParsedFrame& a, const ParsedFrame& b) {
  require(a.ethernet.source == b.ethernet.source &&
              a.ethernet.destination == b.ethernet.destination &&
              a.ethernet.vlan == b.ethernet.vlan,
          "Ethernet header");
  require(a.source == b.source && a.destination == b.destination && a.is_ipv4 == b.is_ipv4,
          "addresses");
  require(a.traffic_class == b.traffic_class && a.hop_limit == b.hop_limit &&
              a.dont_fragment == b.dont_fragment && a.identification == b.identification &&
              a.flow_label == b.flow_label && a.udp_source_port == b.udp_source_port,
          "IP and UDP headers");
  std::array<std::byte, kMaxHeaderLength> one, two;
  const std::size_t length = encode(a.headers, a.payload.size(), one.data());
  require(encode(b.headers, b.payload.size(), two.data()) == length &&
              std::memcmp(one.data(), two.data(), length) == 0,
          "transport headers");
  require(std::ranges::equal(a.payload, b.payload), "payload");
}

/// As a train of packets of this size: no packet says more than the frame holds.
void check_train(const Bytes& frame, std::size_t segment) {
  FrameWalk walk(frame, segment);
  ParsedFrame parsed;
  std::size_t packets = 0, payload = 0;
  do {
    require(++packets <= kMaxTrainPackets, "a train has an end");
    if (walk.next(parsed) != DropReason::kNone) continue;
    payload += parsed.payload.size();
    std::array<std::byte, kGrhLength> grh;
    grh_bytes(parsed, grh);
    (void)check_icrc(parsed);
  } while (walk.has_more());
  require(payload <= frame.size(), "packets of a train do not overlap");
}

/// As on a port that does not see the identification: whatever a packet was sent with is found.
void check_hidden(const ParsedFrame& sent, Bytes& frame) {
  HiddenIdentifications hidden;
  using Soundness = HiddenIdentifications::Soundness;
  require(hidden.check(sent) == Soundness::kSound, "a sound packet is sound");
  if (!sent.is_ipv4) return;
  const std::size_t ip = static_cast<std::size_t>(sent.network.data() - frame.data());
  store_be(&frame[ip + 4], static_cast<std::uint16_t>(~sent.identification));
  ParsedFrame other = sent;
  other.identification = static_cast<std::uint16_t>(~sent.identification);
  require(hidden.check(other) != Soundness::kBroken, "an identification is found");
}

void check_roce(const Bytes& frame) {
  ParsedFrame parsed;
  if (parse_frame(frame, parsed) != DropReason::kNone) return;
  std::array<std::byte, kGrhLength> grh;
  grh_bytes(parsed, grh);
  (void)check_icrc(parsed);

  Bytes rebuilt = test::rebuild(parsed);
  ParsedFrame again;
  require(parse_frame(rebuilt, again) == DropReason::kNone, "a rebuilt frame parses");
  require(check_icrc(again), "a rebuilt frame has the right sum");
  require_same(parsed, again);
  check_hidden(again, rebuilt);
}

}  // namespace
}  // namespace softhca::wire

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace softhca;
  // A buffer of exactly its size: a byte read beyond it shows.
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const test::Bytes frame(bytes, bytes + size);
  wire::check_resolution(frame);
  wire::check_roce(frame);
  for (const std::size_t segment : {std::size_t{1}, std::size_t{16}, std::size_t{40}, size / 3})
    wire::check_train(frame, segment);
  return 0;
}
