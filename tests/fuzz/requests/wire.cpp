// SPDX-License-Identifier: Apache-2.0

#include "tests/fuzz/requests/wire.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "daemon/engine/datagrams/shared_qp.hpp"

namespace softhca::fuzz {
namespace {

using engine::QpType;

std::vector<std::uint8_t> opcodes_of(wire::Transport transport) {
  std::vector<std::uint8_t> out;
  for (unsigned i = 0; i < 256; ++i)
    if (wire::kOpcodeTable[i].transport == transport) out.push_back(static_cast<std::uint8_t>(i));
  return out;
}

const std::vector<std::uint8_t>& opcodes_of(QpType type) {
  static const auto kRc = opcodes_of(wire::Transport::kRc);
  static const auto kUc = opcodes_of(wire::Transport::kUc);
  static const auto kUd = opcodes_of(wire::Transport::kUd);
  static const auto kXrc = opcodes_of(wire::Transport::kXrc);
  if (engine::is_xrc(type)) return kXrc;
  return type == QpType::kRc ? kRc : type == QpType::kUc ? kUc : kUd;
}

/// Returns the numbers with which the queue pair goes on.
transport::WirePosition position_of(const engine::QueuePair& qp) {
  if (const auto* rc = std::get_if<transport::Rc>(&qp.transport)) return rc->position();
  if (const auto* uc = std::get_if<transport::Uc>(&qp.transport)) return uc->position();
  return qp.connection.position;
}

}  // namespace

Wire::Wire(Common& common)
    : common_(common),
      end_(*common.bench.far_end),
      neighbours_({.mac = end_.mac()},
                  [this](std::span<const std::byte> answer) { transmit(answer); }) {
  for (std::size_t i = 0; i < kAnswering; ++i)
    neighbours_.add_address(
        {kHosts[i], static_cast<std::uint8_t>(kHosts[i].is_ipv4() ? 24 : 64), true});
}

void Wire::transmit(std::span<const std::byte> frame) {
  port::Frame out = end_.allocate();
  if (!out || frame.size() > out.capacity) return;
  std::copy(frame.begin(), frame.end(), out.data);
  out.length = static_cast<std::uint32_t>(frame.size());
  end_.transmit(out);
  end_.flush();
}

void Wire::drain() {
  std::array<port::Frame, 64> frames;
  while (const std::size_t count = end_.receive(frames)) {
    for (std::size_t i = 0; i < count; ++i) {
      require(frames[i].length <= Bench::kMtu + port::kEthernetOverhead, "frames keep to the MTU");
      (void)neighbours_.receive(frames[i].bytes(), common_.bench.now());
    }
    end_.release({frames.data(), count});
  }
}

wire::FramePath Wire::path_to(const Gid& destination, const Gid& source) const {
  return {.source_mac = end_.mac(),
          .destination_mac = common_.bench.view.ports.front()->port->mac(),
          .vlan = {},
          .source = source,
          .destination = destination};
}

void Wire::send(const wire::FramePath& path, const wire::Headers& headers, std::size_t payload) {
  if (path.source.is_ipv4() != path.destination.is_ipv4()) return;
  const wire::FrameTemplate frame(path);
  std::vector<std::byte> bytes(frame.frame_length(headers.opcode, payload));
  wire::FrameBuilder builder(bytes, frame, headers, payload, identification_++);
  for (std::size_t i = 0; i < payload; ++i)
    builder.payload()[i] = static_cast<std::byte>(identification_ + i);
  bytes.resize(builder.finish());
  transmit(bytes);
}

/// Any packet of its transport to a queue pair, most of them fitting.
void Wire::send_packet() {
  const Qp* const qp = common_.any_queue_pair();
  if (qp == nullptr) return;
  const engine::QueuePair& e = qp->engine;
  Input& input = common_.input;
  wire::Headers h;
  const auto& opcodes = opcodes_of(e.type);
  const std::uint8_t choice = input.byte();
  h.opcode = choice < 0xf0   ? opcodes[choice % opcodes.size()]
             : choice < 0xf8 ? wire::raw(wire::Opcode::kCnp)
                             : input.byte();
  const wire::OpcodeInfo& info = wire::opcode_info(h.opcode);
  if (!info.is_known()) return;
  const std::uint8_t flags = input.byte();
  h.ack_request = (flags & 1) != 0;
  h.solicited = (flags & 2) != 0;
  h.fecn = h.becn = (flags & 4) != 0;
  h.destination = e.qpn;
  const transport::WirePosition position = position_of(e);
  const bool response = info.mask.has_all(wire::kResponse);
  h.psn = (response ? position.send - 1 : position.receive) +
          static_cast<std::uint32_t>((flags & 8) != 0 ? input.take<std::int8_t>() : 0);
  const std::uint8_t length = input.byte();
  const std::size_t payload = !info.mask.has_all(wire::kPayload) ? 0
                              : length < 192                     ? length
                              : length < 240                     ? e.rc.mtu
                                                                 : Bench::kPathMtu;
  h.rkey = Rkey(common_.names.keys.any(input));
  h.invalidate = Rkey(common_.names.keys.any(input));
  h.remote_addr = kIova + input.take<std::uint16_t>() % 4160;
  h.dma_length = (flags & 16) != 0 ? input.byte() * 16u : static_cast<std::uint32_t>(payload);
  h.swap_add = h.compare = input.byte();
  h.syndrome = (flags & 32) != 0 ? input.byte() : std::uint8_t{wire::kSyndromeNoCreditLimit};
  h.msn = h.original = input.byte();
  h.qkey = (flags & 64) != 0 ? 1 : kQkey;
  h.source = Qpn(0x77);
  h.imm = 5;
  h.xrc_srq = common_.names.receive_queues.any(input) & 0xffffff;
  const engine::AddressPath& route = e.connection.route.path;
  const bool routed = !route.source.is_zero() && (flags & 128) == 0;
  wire::FramePath path = routed ? path_to(route.source, route.destination)
                                : path_to(one_of(kPortAddresses, input), one_of(kHosts, input));
  path.traffic_class = input.byte() % 4;
  send(path, h, payload);
}

/// A datagram to a queue pair of the daemon's own, to any other, or to a group.
void Wire::send_datagram() {
  Input& input = common_.input;
  wire::Headers h;
  const std::uint8_t choice = input.byte();
  h.opcode =
      wire::raw((choice & 1) != 0 ? wire::Opcode::kUdSendOnlyImm : wire::Opcode::kUdSendOnly);
  h.source = Qpn(0x77);
  Gid destination = one_of(kPortAddresses, input);
  switch (choice >> 6) {
    case 0:
      h.destination = engine::kManagementQueuePair.qpn;
      h.qkey = engine::kManagementQueuePair.qkey;
      break;
    case 1:
      h.destination = engine::kProgramQueuePair.qpn;
      h.qkey = engine::kProgramQueuePair.qkey;
      break;
    case 2:
      h.destination = engine::kMulticastQpn;
      h.qkey = kQkey;
      destination = one_of(kGroups, input);
      break;
    default:
      h.destination = Qpn(common_.names.queue_pairs.any(input) & 0xffffff);
      h.qkey = kQkey;
  }
  const wire::FramePath path = path_to(destination, one_of(kHosts, input));
  if (path.source.is_ipv4() != path.destination.is_ipv4()) return;
  const std::size_t payload = (choice & 2) != 0 ? input.byte() : engine::Datagram::kBytes;
  const wire::FrameTemplate frame(path);
  std::vector<std::byte> bytes(frame.frame_length(h.opcode, payload));
  wire::FrameBuilder builder(bytes, frame, h, payload, identification_++);
  std::ranges::fill(builder.payload(), std::byte{0});
  if (payload >= engine::kSelectorBytes)
    builder.payload()[engine::kClassOffset] = builder.payload()[3] =
        std::byte{static_cast<std::uint8_t>(1 + (choice >> 2) % 4)};
  bytes.resize(builder.finish());
  transmit(bytes);
}

void Wire::send_raw() { transmit(std::as_bytes(common_.input.bytes(common_.input.byte()))); }

void Wire::fail_over() { common_.bench.ask(engine::FailOver{PortId(0)}); }

void Wire::serve_port() {
  static constexpr std::array kServices = {engine::PortService::kOn, engine::PortService::kSetDown,
                                           engine::PortService::kFailed};
  common_.bench.ask(
      engine::ServePort{PortId(0), kServices[common_.input.byte() % kServices.size()]});
}

}  // namespace softhca::fuzz
