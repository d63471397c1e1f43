// The parts of an engine that packets and datagrams meet, without an engine: a tenant of its own
// stands behind the queue pairs that several clients share.
#pragma once

#include "daemon/engine/demux.hpp"
#include "tests/unit/engine/qp_parts.hpp"

namespace softhca::engine {

class DatagramParts : public QpParts {
 protected:
  static constexpr std::uint32_t kQkey = 0x11111111;
  static constexpr std::uint8_t kClass = 7;

  DatagramParts() {
    datagram_control.add(tenant);
    party.id = TenantId(1);
    party.qos_class = *pcbs.add_group({.tenant = party.id, .guaranteed = 2});
    for (const auto purpose : {schedule::TvlPurpose::kCommands, schedule::TvlPurpose::kDedicated})
      add_tvl(party, purpose);
  }
  ~DatagramParts() override {
    while (!pairs.empty()) remove(*pairs.back());
    while (!opened.empty()) close(*opened.back());
  }

  /// A UD queue pair in RTS.
  TestQp& make_ud(std::uint32_t qkey = kQkey) {
    TestQp& made = make_qp({.type = QpType::kUd});
    bring_up_datagram(lifecycle, made, qkey);
    return made;
  }
  /// The number of an address handle.
  std::uint32_t make_ah(const Gid& destination) {
    ahs.push_back(std::make_unique<AddressHandle>());
    AddressHandle& ah = *ahs.back();
    ah.session = &session;
    ah.pd = kPd;
    ah.route.path = {.source = kNear, .destination = destination, .port = PortId(0)};
    return handles.add(ah);
  }
  /// A service with a client of the tenant's.
  DatagramService& open(const DatagramService::Options& options = {}) {
    opened.push_back(std::move(*DatagramService::make(party, options, clock.now)));
    DatagramService& made = *opened.back();
    EXPECT_TRUE(made.pool().register_client(client_key(tenant.id, kClass), "test"));
    EXPECT_TRUE(services.open(made));
    return made;
  }
  void close(DatagramService& service) {
    services.close(service);
    std::erase_if(opened, [&](const auto& one) { return one.get() == &service; });
  }
  /// What begins a message for its client.
  static std::vector<std::byte> message(std::size_t bytes = Datagram::kBytes) {
    std::vector<std::byte> out(bytes);
    if (bytes > kClassOffset) out[kClassOffset] = std::byte{kClass};
    return out;
  }
  static wire::Headers datagram_to(Qpn destination, std::uint32_t qkey) {
    wire::Headers h;
    h.opcode = wire::raw(wire::Opcode::kUdSendOnly);
    h.destination = destination;
    h.qkey = qkey;
    h.source = kPeer;
    return h;
  }
  /// The host at the far end sends it, and it finds its way.
  void arrive(const wire::Headers& headers, std::span<const std::byte> payload = {},
              const wire::FramePath& path = {}) {
    far.put(far.packet(headers, payload, path));
    packets.receive([this](PortBinding& binding, const wire::ParsedFrame& frame) {
      demux.receive(binding, frame);
    });
  }
  /// Serves all queue pairs that have work, and sends their packets.
  void run() {
    execution.start_commands();
    for (int i = 0; i < 10 && driver.run_ready() != 0; ++i) execution.start_commands();
    packets.finish_batch();
  }
  /// Returns the headers of the packet that has arrived at the far host.
  wire::Headers next_sent() {
    const auto sent = far.receive();
    EXPECT_EQ(sent.size(), 1u);
    if (sent.empty()) return {};
    wire::ParsedFrame parsed;
    EXPECT_EQ(wire::parse_frame(sent[0], parsed), wire::DropReason::kNone);
    return parsed.headers;
  }
  std::uint64_t counted(transport::Count what) const { return tenant.counters.value(what); }

  Tenant party;
  AddressHandles handles;
  std::vector<std::unique_ptr<AddressHandle>> ahs;
  SessionRegistry registry{cpu, pcbs, ingress, tvl_assignment, async_events};
  DatagramServices services{clock,         cpu,     commands, pcbs,        scheduler, arbitrator,
                            region_access, packets, handles,  completions, registry,  lifecycle};
  Datagrams datagrams{transport_parts, addresses, handles, multicast, services};
  TransportDriver driver{clock, transport_parts, ingress, lifecycle, stall, datagrams};
  Demux demux{clock,   queue_pairs, addresses,        multicast,
              packets, congestion,  datagram_control, lifecycle.time_wait(),
              driver,  services};
  std::vector<std::unique_ptr<DatagramService>> opened;
};

}  // namespace softhca::engine
