// SPDX-License-Identifier: Apache-2.0

#include "tests/fuzz/wire_peer.hpp"

#include <array>
#include <vector>

#include "daemon/roce/wire/arp_nd.hpp"

namespace softhca::fuzz {

WirePeer::WirePeer(std::unique_ptr<port::MemoryPort> end, const Gid& own, const Gid& other,
                   const MacAddress& other_mac)
    : end_(std::move(end)),
      own_(own),
      path_({.source_mac = end_->mac(),
             .destination_mac = other_mac,
             .vlan = {},
             .source = own,
             .destination = other}) {}

void WirePeer::send(const wire::Headers& headers, std::size_t payload) {
  std::vector<std::byte> frame(path_.frame_length(headers.opcode, payload));
  wire::FrameBuilder builder(frame, path_, headers, payload, identification_++);
  for (std::size_t i = 0; i < payload; ++i)
    builder.payload()[i] = static_cast<std::byte>(identification_ + i);
  frame.resize(builder.finish());
  transmit(frame);
}

void WirePeer::send_raw(std::span<const std::uint8_t> bytes) { transmit(std::as_bytes(bytes)); }

void WirePeer::transmit(std::span<const std::byte> frame) {
  port::Frame out = end_->allocate();
  if (!out || frame.size() > out.capacity) return;
  std::copy(frame.begin(), frame.end(), out.data);
  out.length = static_cast<std::uint32_t>(frame.size());
  end_->transmit(out);
  end_->flush();
}

void WirePeer::drain(std::size_t mtu) {
  std::array<port::Frame, 64> frames;
  while (const std::size_t count = end_->receive(frames)) {
    for (std::size_t i = 0; i < count; ++i) take(frames[i].bytes(), mtu);
    end_->release({frames.data(), count});
  }
}

void WirePeer::take(std::span<const std::byte> frame, std::size_t mtu) {
  if (const auto question = wire::parse_arp(frame)) {
    std::array<std::byte, wire::kMaxResolutionFrame> answer;
    if (question->target == own_)
      transmit(std::span(answer).first(
          wire::build_arp_reply({end_->mac(), {}, own_}, *question, answer)));
    return;
  }
  wire::ParsedFrame parsed;
  require(wire::parse_frame(frame, parsed) == wire::DropReason::kNone && wire::check_icrc(parsed),
          "what the engine sends is well-formed");
  require(parsed.payload.size() <= mtu, "no packet beyond the path MTU");
  require(parsed.destination == own_, "packets go to the peer alone");
  const wire::OpcodeMask mask = wire::opcode_info(parsed.headers.opcode).mask;
  if (mask.has_all(wire::kRequest)) {
    requests_.push_back({parsed.headers, parsed.payload.size()});
    if (requests_.size() > kRemembered) requests_.pop_front();
  } else if (mask.has_all(wire::kAeth)) {
    acknowledged_ = {parsed.headers.psn, parsed.headers.syndrome};
  }
}

}  // namespace softhca::fuzz
