// SPDX-License-Identifier: Apache-2.0

// ARP and neighbour discovery: a table that others talk to, rightly and wrongly, while time passes.
#include "daemon/roce/neighbour/neighbours.hpp"

#include "tests/fuzz/input.hpp"

namespace softhca::neighbour {
namespace {

using fuzz::Input;
using fuzz::require;

constexpr std::uint32_t kCapacity = 4;
constexpr MacAddress kOurs{{2, 0, 0, 0, 0, 1}};

/// Sixteen of either family, some of them ours, in groups, link-local or zero.
Gid address(std::uint8_t n) {
  if ((n & 0x10) == 0) return Gid::from_ipv4((n & 0x0f) == 15 ? 0 : 0x0a000000u + (n & 0x0f));
  Gid gid;
  if ((n & 0x0f) == 15) return gid;
  gid.bytes[0] = (n & 0x20) != 0 ? 0xfe : (n & 0x40) != 0 ? 0xff : 0xfd;
  gid.bytes[1] = (n & 0x20) != 0 ? 0x80 : (n & 0x40) != 0 ? 0x02 : 0;
  gid.bytes[15] = n & 0x0f;
  return gid;
}

MacAddress link_address(std::uint8_t n) {
  return {{static_cast<std::uint8_t>(n & 3), 0, 0, 0, 0, static_cast<std::uint8_t>(n >> 2)}};
}

class Run {
 public:
  explicit Run(Input& input)
      : input_(input),
        vlan_(input.flag() ? std::optional<std::uint16_t>(5) : std::nullopt),
        table_({.mac = kOurs, .vlan = vlan_, .capacity = kCapacity},
               [this](std::span<const std::byte> frame) { check_sent(frame); }) {
    table_.add_address({address(1), 24, true});
    table_.add_address({address(0x11), 64, true});
  }

  void run() {
    while (!input_.done()) {
      step();
      require(table_.size() <= kCapacity, "the table is bounded");
      if (now_ >= table_.next_deadline()) table_.run(now_);
      require(table_.next_deadline() > now_, "what was due is done");
    }
  }

 private:
  void step() {
    switch (input_.below(9)) {
      case 0:
        return receive(input_.bytes(input_.byte() % 100));
      case 1:
        return receive_arp();
      case 2:
        return receive_neighbour();
      case 3:
        return resolve();
      case 4:
        now_ += std::chrono::milliseconds(input_.take<std::uint16_t>());
        return table_.run(now_);
      case 5:
        return add_address();
      case 6:
        return table_.remove_address(address(input_.byte()));
      case 7:
        return table_.set_gateway(address(input_.byte() & 0x0f), address(input_.byte() | 0x10));
      case 8:
        return table_.announce();
    }
  }

  /// As a configuration may have it: one that a host can have.
  void add_address() {
    const Gid own = address(input_.byte());
    const bool host = !own.is_zero() && own != address(15) && !own.is_multicast();
    const auto prefix = static_cast<std::uint8_t>(input_.below(33));
    if (host) table_.add_address({own, prefix, input_.flag()});
  }

  void resolve() {
    const auto hop = table_.next_hop(address(input_.byte()));
    if (!hop) return;
    (void)table_.resolve(*hop, now_, TenantId(input_.byte() % 4u));
  }

  void receive(std::span<const std::uint8_t> bytes) {
    // A buffer of exactly its size.
    const auto* at = reinterpret_cast<const std::byte*>(bytes.data());
    const std::vector<std::byte> frame(at, at + bytes.size());
    const std::uint32_t known = table_.size();
    (void)table_.receive(frame, now_);
    require(table_.size() <= known, "what others send makes no entries");
  }
  void receive(std::span<const std::byte> frame) {
    receive({reinterpret_cast<const std::uint8_t*>(frame.data()), frame.size()});
  }

  wire::Station station() {
    const auto vlan = input_.flag() ? vlan_ : std::optional<std::uint16_t>(7);
    return {link_address(input_.byte()), vlan, {}};
  }

  void receive_arp() {
    std::array<std::byte, wire::kMaxResolutionFrame> frame;
    wire::Station self = station();
    self.address = address(input_.byte() & 0x0f);
    wire::ArpMessage request;
    request.sender_mac = link_address(input_.byte());
    request.sender = address(input_.byte() & 0x0f);
    const std::size_t length = input_.flag() ? wire::build_arp_reply(self, request, frame)
                                             : wire::build_arp_request(self, request.sender, frame);
    receive(std::span(frame).first(length));
  }

  void receive_neighbour() {
    std::array<std::byte, wire::kMaxResolutionFrame> frame;
    wire::Station self = station();
    self.address = address(input_.byte() | 0x10);
    wire::NeighbourMessage question;
    question.source_mac = link_address(input_.byte());
    question.source = address(input_.byte() | 0x10);
    const std::size_t length = input_.flag()
                                   ? wire::build_advertisement(self, question, frame)
                                   : wire::build_solicitation(self, question.source, frame);
    receive(std::span(frame).first(length));
  }

  void check_sent(std::span<const std::byte> frame) {
    require(frame.size() <= wire::kMaxResolutionFrame, "frames are short");
    const auto arp = wire::parse_arp(frame);
    const auto neighbour = wire::parse_neighbour(frame);
    require(arp || neighbour, "sent frames are well-formed");
    require((arp ? arp->vlan : neighbour->vlan) == vlan_, "and of our network");
  }

  Input& input_;
  std::optional<std::uint16_t> vlan_;
  Neighbours table_;
  Time now_{std::chrono::seconds(1)};
};

}  // namespace
}  // namespace softhca::neighbour

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  softhca::fuzz::Input input(data, size);
  softhca::neighbour::Run(input).run();
  return 0;
}
