// SPDX-License-Identifier: Apache-2.0

#include "tests/packets/peer.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "daemon/base/endian.hpp"
#include "daemon/roce/wire/arp_nd.hpp"
#include "daemon/roce/wire/icrc.hpp"

namespace softhca::packets {
namespace {

using Bytes = std::vector<std::byte>;

/// With SOFTHCA_PCAP every packet of the adapter goes into that file, for other readers.
void capture(const Bytes& frame) {
  static std::ofstream file = [] {
    std::ofstream opened;
    const char* const path = std::getenv("SOFTHCA_PCAP");
    if (path == nullptr) return opened;
    opened.open(path, std::ios::binary);
    // Magic, version 2.4, no time zone, longest frame, Ethernet.
    const std::uint32_t header[] = {0xa1b2c3d4, 4 << 16 | 2, 0, 0, 65535, 1};
    opened.write(reinterpret_cast<const char*>(header), sizeof header);
    return opened;
  }();
  if (!file.is_open()) return;
  const auto length = static_cast<std::uint32_t>(frame.size());
  const std::uint32_t header[] = {0, 0, length, length};
  file.write(reinterpret_cast<const char*>(header), sizeof header);
  file.write(reinterpret_cast<const char*>(frame.data()), length);
}

/// Where the headers of a frame begin. An extension header or IP options lie before UDP.
struct Layout {
  std::size_t ip, udp, bth;
};

Layout layout_of(const Bytes& frame) {
  wire::EthernetHeader ethernet;
  const std::size_t ip = wire::decode_ethernet(frame, ethernet);
  const bool ipv4 = ethernet.ether_type == wire::kEtherTypeIpv4;
  const std::size_t udp = ip + (ipv4 ? wire::kIpv4Length : wire::kIpv6Length);
  return {ip, udp, udp + wire::kUdpLength};
}

bool is_ipv4(const Bytes& frame, const Layout& at) {
  return std::to_integer<unsigned>(frame[at.ip]) >> 4 == 4;
}

void add(std::byte* field, std::uint64_t difference) {
  store_be(field, static_cast<std::uint16_t>(load_be<std::uint16_t>(field) + difference));
}

/// Whatever has been changed, both checksums hold again. An ICRC does not depend on where UDP is.
void mend(Bytes& frame, const Layout& at) {
  if (is_ipv4(frame, at)) {
    std::byte* ip = &frame[at.ip];
    store_be(ip + 10, std::uint16_t{0});
    const std::size_t length = (std::to_integer<unsigned>(ip[0]) & 15) * 4;
    const auto sum = static_cast<std::uint16_t>(
        ~wire::fold_checksum(wire::add_checksum({ip, std::max<std::size_t>(length, 20)}, 0)));
    std::memcpy(ip + 10, &sum, sizeof sum);
  }
  const std::size_t end = frame.size() - wire::kIcrcLength;
  store_be(&frame[end], swap_bytes(wire::icrc({&frame[at.ip], end - at.ip})));
}

/// Eight bytes before the UDP header that the IP lengths count.
void insert(Bytes& frame, const Layout& at, const std::array<std::byte, 8>& bytes) {
  frame.insert(frame.begin() + static_cast<std::ptrdiff_t>(at.udp), bytes.begin(), bytes.end());
  add(&frame[at.ip + (is_ipv4(frame, at) ? 2 : 4)], bytes.size());
}

/// Changes inside of the packet, before its checksums are made.
void alter(Bytes& frame, const Layout& at, Arguments& how) {
  std::byte* const ip = &frame[at.ip];
  std::byte* const bth = &frame[at.bth];
  const bool ipv4 = is_ipv4(frame, at);
  if (const auto tc = how.number("tc")) {
    if (ipv4)
      ip[1] = std::byte(*tc);
    else
      store_be(ip, std::uint32_t{6} << 28 | static_cast<std::uint32_t>(*tc) << 20);
  }
  if (const auto flags = how.number("fragment"))
    store_be(ip + 6, static_cast<std::uint16_t>(*flags));
  if (const auto protocol = how.number("protocol")) ip[ipv4 ? 9 : 6] = std::byte(*protocol);
  if (const auto n = how.number("ip_length")) add(ip + (ipv4 ? 2 : 4), *n);
  if (const auto n = how.number("udp_length")) add(&frame[at.udp + 4], *n);
  if (const auto port = how.number("udp_port"))
    store_be(&frame[at.udp + 2], static_cast<std::uint16_t>(*port));
  if (const auto sum = how.number("udp_checksum"))
    store_be(&frame[at.udp + 6], static_cast<std::uint16_t>(*sum));
  if (const auto version = how.number("version")) bth[1] |= std::byte(*version);
  if (const auto pad = how.number("pad"))
    bth[1] = (bth[1] & std::byte{0xcf}) | std::byte(*pad << 4);
  if (const auto opcode = how.number("opcode")) bth[0] = std::byte(*opcode);
}

}  // namespace

Gid group_of(std::uint64_t number, bool ipv4) {
  const auto last = static_cast<std::uint8_t>(number);
  if (ipv4) return Gid::from_ipv4(0xe0000000 + last);
  Gid group{{0xff, 0x0e}};
  group.bytes[15] = last;
  return group;
}

Peer::Peer(std::unique_ptr<port::Port> end, const Gid& own, const Gid& adapter)
    : end_(std::move(end)),
      own_(own),
      adapter_(adapter),
      neighbours_({.mac = end_->mac(), .vlan = {}},
                  [this](std::span<const std::byte> bytes) { transmit(bytes); }) {
  neighbours_.add_address({own, 24, true});
}

void Peer::transmit(std::span<const std::byte> bytes) {
  port::Frame frame = end_->allocate();
  ASSERT_TRUE(frame);
  ASSERT_LE(bytes.size(), frame.capacity);
  std::copy(bytes.begin(), bytes.end(), frame.data);
  frame.length = static_cast<std::uint32_t>(bytes.size());
  end_->transmit(frame);
  end_->flush();
}

void Peer::send(const wire::Headers& h, std::span<const std::byte> payload, Arguments& how) {
  wire::FramePath path;
  path.source_mac = end_->mac();
  path.destination_mac = adapter_mac_;
  path.vlan = vlan;
  if (const auto id = how.number("vlan")) path.vlan = static_cast<std::uint16_t>(*id);
  path.source = own_;
  if (const auto host = how.number("from"))
    path.source.bytes[15] = static_cast<std::uint8_t>(*host);
  path.destination = adapter_;
  if (const auto host = how.number("to"))
    path.destination.bytes[15] = static_cast<std::uint8_t>(*host);
  if (const auto group = how.number("group")) {
    path.destination = group_of(*group, own_.is_ipv4());
    path.destination_mac = wire::multicast_mac(path.destination);
  }
  path.udp_source_port = 0xc123;
  const wire::FrameTemplate headers(path);
  Bytes frame(headers.frame_length(h.opcode, payload.size()));
  wire::FrameBuilder builder(frame, headers, h, payload.size(), 1);
  std::copy(payload.begin(), payload.end(), builder.payload().begin());
  builder.finish();

  const Layout at = layout_of(frame);
  alter(frame, at, how);
  if (how.has("ip_options")) {
    frame[at.ip] = std::byte{0x47};
    insert(frame, at,
           {std::byte{1}, std::byte{1}, std::byte{1}, std::byte{1}, std::byte{1}, std::byte{1},
            std::byte{1}, std::byte{0}});
  }
  if (how.has("extension_header")) {
    frame[at.ip + 6] = std::byte{0};  // hop by hop, then UDP
    insert(frame, at, {std::byte{wire::kProtocolUdp}, std::byte{0}, std::byte{1}, std::byte{4}});
  }
  mend(frame, at);
  if (const auto version = how.number("ip_version"))
    frame[at.ip] = std::byte(*version << 4) | (frame[at.ip] & std::byte{15});
  if (how.has("bad_icrc")) frame.back() ^= std::byte{1};
  if (how.has("bad_ip_checksum")) frame[at.ip + 10] ^= std::byte{1};
  frame.resize(frame.size() - how.number("cut", 0) + how.number("trailer", 0));
  transmit(frame);
}

void Peer::listen(Time now) {
  std::array<port::Frame, 64> frames;
  for (std::size_t count; (count = end_->receive(frames)) != 0;) {
    for (std::size_t i = 0; i < count; ++i) {
      Heard heard;
      heard.bytes.assign(frames[i].data, frames[i].data + frames[i].length);
      const wire::DropReason reason = wire::parse_frame(heard.bytes, heard.parsed);
      if (wire::is_foreign(reason)) {
        std::memcpy(adapter_mac_.bytes.data(), &heard.bytes[6], 6);
        neighbours_.receive(heard.bytes, now);
        continue;
      }
      EXPECT_EQ(reason, wire::DropReason::kNone) << wire::name(reason);
      EXPECT_TRUE(wire::check_icrc(heard.parsed));
      capture(heard.bytes);
      heard_.push_back(std::move(heard));
    }
    end_->release({frames.data(), count});
  }
}

std::optional<Heard> Peer::next() {
  if (heard_.empty()) return std::nullopt;
  Heard heard = std::move(heard_.front());
  heard_.pop_front();
  return heard;
}

}  // namespace softhca::packets
