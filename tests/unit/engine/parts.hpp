// The parts of an engine that collect commands, without an engine. One process of one tenant has a
// queue pair; its commands are not executed.
#pragma once

#include <gtest/gtest.h>

#include "daemon/engine/dispatch.hpp"
#include "daemon/engine/guarantee_lending.hpp"
#include "daemon/engine/ingress.hpp"
#include "daemon/engine/overflow_places.hpp"
#include "tests/unit/engine/process.hpp"

namespace softhca::engine {

class Parts : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kPcbs = 8, kDedicated = 4, kVcbs = 4, kEntries = 16;
  /// The tenant, and room for one more.
  static constexpr std::uint16_t kTenants = 2;
  static constexpr std::uint16_t kTvls = 8;

  Parts() {
    tenant.id = TenantId(0);
    tenant.qos_class = *pcbs.add_group({.tenant = tenant.id, .guaranteed = 4});
    shm::SessionView::format(memory.base(), kVcbs);
    session.qos_class = tenant.qos_class;
    cpu.order().join(tenant.qos_class, tenant.id);
    EXPECT_TRUE(ingress.functions().assign(VcbId(0), kVcbs, tenant.id, tenant.qos_class));
    qp.qp.tenant = &tenant;
    qp.qp.session = &session;
    qp.qp.qos_class = tenant.qos_class;
    qp.qp.sq.ring = shm::SendRing(qp.send_memory.base(), kEntries, qp.stride);
    EXPECT_TRUE(queue_pairs.add(qp.qp));
    tvl = add_tvl(schedule::TvlPurpose::kCommands);
    qp.qp.sq.tvl = tvl;
    qp.qp.sq.dedicated_tvl = tvl;
    scheduler.open(schedule::QpSlot(qp.qp.slot), qp.qp.qos_class, kEntries);
    qp.qp.state = QpState::kRts;
    ingress.add(session);
  }

  TvlId add_tvl(schedule::TvlPurpose purpose) { return add_tvl(tenant, purpose); }
  TvlId add_tvl(const Tenant& owner, schedule::TvlPurpose purpose) {
    const TvlId added = *tvls.add({.tenant = owner.id,
                                   .qos_class = owner.qos_class,
                                   .purpose = purpose,
                                   .max_kick_list = 8,
                                   .execution_guaranteed = 4,
                                   .completion_guaranteed = 4});
    arbitrator.refresh();
    return added;
  }

  /// A queue pair of the tenant, which takes turns at the engine's time and does nothing else.
  struct PairOf : QueuePair {
    PairOf(Tenant& owner, std::uint32_t at) {
      tenant = &owner;
      slot = at;
      qos_class = owner.qos_class;
    }
  };
  /// Runs 400 turns of equal cost of two competing queue pairs. Returns how many the second gets.
  int turns_of_second(QueuePair& first, QueuePair& second) {
    cpu.make_ready(first);
    cpu.make_ready(second);
    int turns = 0;
    for (int i = 0; i < 400; ++i) {
      QueuePair& served = *cpu.begin() == second.slot ? second : first;
      turns += &served == &second;
      cpu.add(10000);
      cpu.finished(served, true);
    }
    cpu.remove(first);
    cpu.remove(second);
    return turns;
  }

  // --- as the process does it
  abi::SessionHeader& header() { return *reinterpret_cast<abi::SessionHeader*>(memory.base()); }
  abi::VcbPage& page(std::uint32_t vcb) {
    return reinterpret_cast<abi::VcbPage*>(memory.base() + abi::kVcbOffset)[vcb];
  }
  abi::CommandHeader command(std::uint32_t sequence) const {
    abi::CommandHeader header{};
    header.qpn = qp.qp.qpn.value;
    header.sequence = sequence;
    header.flags = abi::kCommandSignaled;
    return header;
  }
  /// Hands a VCB over with the segments of `mask` of a command.
  void hand_over(std::uint32_t vcb, const abi::CommandHeader& command,
                 std::uint64_t mask = abi::kAllSegments) {
    std::memcpy(page(vcb).command, &command, sizeof command);
    page(vcb).scoreboard.store(mask);
    header().active ^= std::uint64_t{1} << vcb;
  }
  void ring(std::uint32_t qpn, std::uint32_t sequence_end) {
    const std::uint32_t n = header().doorbell_producer.load();
    reinterpret_cast<abi::Doorbell*>(
        memory.base() + abi::kDoorbellOffset)[n % abi::kDoorbellEntries] = {qpn, sequence_end};
    header().doorbell_producer.store(n + 1);
  }
  bool is_free(std::uint32_t vcb) {
    return ((header().active.load() ^ header().released.load()) >> vcb & 1) == 0;
  }

  // --- as the engine does it
  std::uint64_t pcbs_in_use() const { return pcbs.group(tenant.qos_class).all_in_use.value(); }

  StepClock clock{Time(std::chrono::seconds(1))};
  RecordingSink sink;
  AsyncEvents async_events{sink, clock, cpu, 4};
  EventLog event_log{clock};
  LocalAddresses addresses;
  Tenant tenant;
  RingMemory memory{abi::session_bytes(kVcbs)};
  Session session{SessionId(1), tenant, shm::SessionView(memory.base(), kVcbs), VcbId(0)};
  QpTable queue_pairs{64};
  CpuScheduler cpu{clock, queue_pairs.slots(), kTenants, kTenants, kTvls};
  collect::PcbPool pcbs{{.pcbs = kPcbs, .dedicated = kDedicated, .max_groups = kTenants}};
  OverflowPlaces places{queue_pairs};
  schedule::SendQueueScheduler scheduler{{.max_queue_pairs = queue_pairs.slots(),
                                          .max_classes = kTenants,
                                          .quantum = 16,
                                          .doorbells = {}},
                                         places};
  schedule::TvlTable tvls{{.max_tvls = kTvls, .execution_credits = 16, .completion_credits = 16}};
  schedule::KickArbitrator arbitrator{tvls, pcbs.size()};
  RateControl rates{clock, queue_pairs.slots(), kTenants, tvls.size()};
  CommandStore commands{clock, queue_pairs, cpu, pcbs, scheduler, arbitrator, rates};
  Ingress ingress{clock,      queue_pairs, cpu,          commands,  pcbs,      scheduler,
                  arbitrator, rates,       async_events, event_log, 2 * kVcbs, kTenants};
  Dispatch dispatch{clock, queue_pairs, cpu, commands, pcbs, scheduler, arbitrator, rates};
  GuaranteeLending lending{clock, addresses, ingress, pcbs, tvls, arbitrator, kTenants};
  TestQp qp{QpOptions{.send_entries = kEntries}};
  TvlId tvl;
};

}  // namespace softhca::engine
