// SPDX-License-Identifier: Apache-2.0

// What a script finds: an adapter with one tenant, one queue pair and 16 KiB of registered memory.
#include <gtest/gtest.h>

#include <algorithm>

#include "daemon/configuration/schema/schema.hpp"
#include "tests/packets/script.hpp"

namespace softhca::packets {
namespace {

using engine::QpType;

constexpr std::size_t kMemory = 16 << 10;
constexpr engine::XrcDomainId kXrcDomain(1);

Gid host(std::uint8_t number, bool ipv6) {
  if (!ipv6) return engine::address(number);
  Gid gid;
  gid.bytes[0] = 0xfd;
  gid.bytes[15] = number;
  return gid;
}

}  // namespace

/// world [ipv6] [vlan=ID]
void Script::make_world(Arguments& a) {
  const bool ipv6 = a.has("ipv6");
  auto [left, right] = port::MemoryPort::make_pair();
  engine::Adapter& adapter = world_.add();
  peer_gid_ = host(2, ipv6);
  adapter.add_port(std::move(left), host(1, ipv6));
  adapter.add_tenant("a", host(1, ipv6), PortId(0));
  peer_ = std::make_unique<Peer>(std::move(right), peer_gid_, host(1, ipv6));
  if (const auto vlan = a.number("vlan"))
    adapter.engine.ports()[0]->vlan = peer_->vlan = static_cast<std::uint16_t>(*vlan);
  process_ = std::make_unique<engine::Process>(adapter, *adapter.tenants[0]);
  cq_ = &process_->make_cq();
  memory_ = &process_->make_buffer(kMemory);
  // The peer's link address, so that no script has to wait for it.
  (void)adapter.engine.ports()[0]->neighbours->resolve(peer_gid_, world_.now);
  step();
}

/// qp rc|uc|ud|xrc_send|xrc_recv [mtu=] [psn=] [timeout=] [retry=] [rnr_retry=] [min_rnr=]
/// [rd_atomic=] [dest_rd=] [access=] [qkey=] [rtr] [selective]
void Script::make_queue_pair(Arguments& a) {
  if (!peer_) {
    Arguments plain;
    make_world(plain);
  }
  QpType type = QpType::kRc;
  if (a.has("ud")) type = QpType::kUd;
  if (a.has("uc")) type = QpType::kUc;
  if (a.has("xrc_send")) type = QpType::kXrcSend;
  if (a.has("xrc_recv")) type = QpType::kXrcReceive;
  (void)a.has("rc");
  qp_ = &process_->make_qp(*cq_, *cq_, {.type = type, .xrc_domain = kXrcDomain});
  engine::QueuePair& qp = qp_->qp;
  qp.access = static_cast<std::uint32_t>(a.number("access", engine::Process::kFull));
  qp.qkey = static_cast<std::uint32_t>(a.number("qkey", 0x11111111));
  qp.connection.destination = qp.rc.destination = Qpn(0x123);
  qp.connection.route.path.source = qp.connection.named_source = process_->tenant.addresses[0].gid;
  qp.connection.route.path.port = process_->tenant.addresses[0].port;
  qp.connection.route.path.destination = peer_gid_;
  qp.rc.mtu = static_cast<std::uint32_t>(a.number("mtu", 256));
  const auto octet = [&](const char* name, std::uint64_t otherwise) {
    return static_cast<std::uint8_t>(a.number(name, otherwise));
  };
  qp.rc.timeout = octet("timeout", 14);
  qp.rc.retry_count = octet("retry", 3);
  qp.rc.rnr_retry = octet("rnr_retry", 7);
  qp.rc.min_rnr_timer = octet("min_rnr", 12);
  qp.rc.max_rd_atomic = octet("rd_atomic", 4);
  qp.rc.max_dest_rd_atomic = octet("dest_rd", 4);
  qp.state = engine::QpState::kInit;
  const Psn first(static_cast<std::uint32_t>(a.number("psn", 0)));
  engine::Engine& engine = process_->adapter.engine;
  const bool selective = a.has("selective");
  engine.queue_pairs().set_reliability(
      {.selective_repeat = selective, .out_of_order = selective ? 128u : 0u});
  engine.queue_pairs().enter_ready_to_receive(qp, first);
  if (!a.has("rtr")) engine.queue_pairs().enter_ready_to_send(qp, first);
}

/// srq [domain=]: a shared receive queue of XRC, numbered from 1.
void Script::make_srq(Arguments& a) {
  if (!peer_) {
    Arguments plain;
    make_world(plain);
  }
  const engine::XrcDomainId domain(
      static_cast<std::uint32_t>(a.number("domain", kXrcDomain.value)));
  srqs_.push_back(&process_->make_srq(domain, *cq_));
}

/// congestion mode=off|notify|on [name=value...], as in the configuration, and rpg_time_reset.
void Script::congestion(Arguments& a) {
  CongestionParameters p;
  const std::string mode = a.text("mode", "on");
  for (const configuration::Key& key : configuration::schema_of<CongestionParameters>().keys) {
    if (key.at.type == configuration::Type::kWord) {
      const auto word = std::find(key.words.begin(), key.words.end(), mode);
      if (word != key.words.end())
        configuration::set_amount(key, &p, static_cast<std::uint64_t>(word - key.words.begin()));
    } else if (const auto value = a.number(key.name)) {
      configuration::set_amount(key, &p, *value);
    }
  }
  if (const auto value = a.number("rpg_time_reset"))
    p.fixed.rpg_time_reset = static_cast<std::uint32_t>(*value);
  process_->adapter.engine.set_congestion(p);
}

}  // namespace softhca::packets
