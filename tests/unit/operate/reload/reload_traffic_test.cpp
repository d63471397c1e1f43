// SPDX-License-Identifier: Apache-2.0

// Random sequences of commands, buffers, reloads and of processes that start and end, in virtual
// time on one engine. No buffer and no command is in two places, the sums of every pool add up, and
// guarantees hold. Each queue pair's commands complete once and in order, whether they came by VCB
// or by doorbell and whatever a reload changed meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/device/adapter/levels.hpp"
#include "daemon/device/adapter/setup.hpp"
#include "daemon/engine/requests/level_settings.hpp"
#include "daemon/engine/requests/tenant_allocations.hpp"
#include "tests/sanitized.hpp"
#include "tests/unit/engine/fixture/process.hpp"

namespace softhca::control {
namespace {

using configuration::Config;
using configuration::TenantConfig;
using engine::Process;
using engine::TestCq;
using engine::TestQp;

constexpr std::uint32_t kFlowRing = 16;  ///< entries of every queue
constexpr std::uint32_t kPlaces = 5;
constexpr std::uint32_t kFlows = 5;                              ///< of two processes
constexpr Duration kLongestLook = std::chrono::milliseconds(2);  ///< at a VCB half written
constexpr std::array kNames = {"high", "low"};

engine::EngineLimits limits() {
  return {.vcbs = 4096,
          .pcbs = 14,
          .dedicated_pcbs = 14,
          .tenants = 3,
          .levels = 6,
          .tvls = 24,
          .execution_credits = 12,
          .completion_credits = 24,
          .queue_pairs = 64,
          .doorbells = {.entries = kPlaces, .threshold = 2}};
}

/// One way of a connection.
struct Flow {
  TestQp* from;
  TestQp* to;
  std::uint32_t posted = 0;
  std::uint32_t completed = 0;
  std::uint32_t receives = 0;  ///< posted
  std::uint32_t received = 0;
};

/// A command of which some segments are not written yet.
struct Partial {
  std::uint32_t vcb;
  TestQp* qp;
  std::uint32_t sequence;
  std::uint64_t missing;
};

/// Two processes, and what one sends the other.
struct Couple {
  std::unique_ptr<Process> sender, receiver;
  TestCq* sent;
  TestCq* received;
  std::vector<Flow> flows;
  std::optional<Partial> partial;
};

class ReloadTraffic {
 public:
  explicit ReloadTraffic(std::uint32_t seed)
      : random_(seed), adapter_(world_.add(limits())), allocations_(adapter_.engine) {
    for (const auto& [name, host] : {std::pair("a", 1u), {"b", 2u}, {"c", 3u}}) {
      TenantConfig tenant{.name = name, .addresses = {engine::address(host)}};
      tenant.tvls = {configuration::TvlConfig{.kick_list = 4}};
      config_.tenants.push_back(tenant);
    }
    engine::TenantAllocationChange change;
    adapter_.tenants = make_tenants(config_, change);
    EXPECT_TRUE(allocations_.change(change));
    for (int i = 0; i < 3; ++i) begin();
  }
  ~ReloadTraffic() {
    while (!couples_.empty()) end(couples_.front());
  }

  void step() {
    Couple& couple = couples_.size() == 1 ? couples_.front() : *pick();
    Flow& flow = couple.flows[below(couple.flows.size())];
    switch (below(16)) {
      case 0:
        return reload();
      case 1:
        return set_doorbells();
      case 2:
        return below(4) == 0 ? replace() : write_partly(couple, flow);
      case 3:
        return write_partly(couple, flow);
      case 4:
        return write_the_rest(couple);
      case 5:
      case 6:
      case 7:
        return receive(couple, flow, below(kFlowRing));
      case 8:
      case 9:
      case 10:
      case 11:
        return send(couple, flow, 1 + below(6));
      default:
        return turn(1 + below(12));
    }
  }

  void check() {
    check_pcbs();
    check_groups();
    check_credits();
    check_doorbells();
  }

  /// All that was posted completes.
  void drain() {
    for (Couple& couple : couples_) {
      write_the_rest(couple);
      for (Flow& flow : couple.flows) receive(couple, flow, kFlowRing);
    }
    world_.step(kLongestLook);
    const bool done = world_.run_until([&] {
      bool all = true;
      for (Couple& couple : couples_)
        for (Flow& flow : couple.flows) {
          poll(couple);
          receive(couple, flow, kFlowRing);
          all = all && flow.completed == flow.posted && flow.received == flow.posted;
        }
      return all || testing::Test::HasFatalFailure();
    });
    ASSERT_TRUE(done) << "something was lost";
    forget_partials();
    world_.step(kLongestLook);
    turn(3);
    check();
    for (std::uint32_t p = 0; p < pcbs().size(); ++p)
      ASSERT_EQ(pcbs().state(PcbId(p)).use, collect::PcbUse::kFree) << "PCB " << p;
  }

  std::uint32_t reloads() const { return reloads_; }
  std::uint64_t completed() const { return completed_; }
  std::uint64_t pruned() const {
    std::uint64_t sum = 0;
    for (std::uint16_t i = 0; i < adapter_.engine.scheduler().max_classes(); ++i)
      sum += adapter_.engine.scheduler().counters(QosClassId(i)).pruned.value();
    return sum;
  }
  std::uint64_t send_queue_mode() const {
    std::uint64_t sum = 0;
    for (const auto& tenant : adapter_.tenants) sum += tenant->counters.send_queue_mode.value();
    return sum;
  }

 private:
  std::uint32_t below(std::size_t n) { return static_cast<std::uint32_t>(random_() % n); }
  collect::PcbPool& pcbs() { return adapter_.engine.pcbs(); }
  std::list<Couple>::iterator pick() {
    return std::next(couples_.begin(), static_cast<std::ptrdiff_t>(below(couples_.size())));
  }

  // --- processes

  std::unique_ptr<Process> make_process() {
    engine::Tenant& tenant = *adapter_.tenants[below(adapter_.tenants.size())];
    std::vector<engine::Level*> levels;
    for (const auto& level : tenant.levels)
      if (!level->control.leaving) levels.push_back(level.get());
    engine::Level* level = levels.empty() ? nullptr : levels[below(levels.size())];
    return std::make_unique<Process>(adapter_, tenant, 2, level);
  }

  void begin() {
    Couple couple{.sender = make_process(), .receiver = make_process()};
    couple.sent = &couple.sender->make_cq(64);
    couple.received = &couple.receiver->make_cq(64);
    const engine::QpOptions options{.send_entries = kFlowRing, .receive_entries = kFlowRing};
    for (std::uint32_t i = 0; i < kFlows; ++i) {
      TestQp& from = couple.sender->make_qp(*couple.sent, *couple.sent, options);
      TestQp& to = couple.receiver->make_qp(*couple.received, *couple.received, options);
      connect(*couple.sender, from, *couple.receiver, to);
      couple.flows.push_back({&from, &to});
    }
    couples_.push_back(std::move(couple));
  }

  void end(Couple& couple) {
    couple.sender->end();
    couple.receiver->end();
    buffers_.erase(couple.receiver.get());
    couples_.remove_if([&](const Couple& there) { return &there == &couple; });
  }

  void replace() {
    if (couples_.size() > 2) end(*pick());
    begin();
  }

  template <class Has>
  bool any_process(Has&& has) const {
    return std::any_of(couples_.begin(), couples_.end(), [&](const Couple& couple) {
      return has(*couple.sender->session) || has(*couple.receiver->session);
    });
  }

  // --- commands

  static engine::Work message(std::uint32_t number) {
    return {.opcode = abi::Opcode::kSendWithImm,
            .flags = abi::kCommandSignaled | abi::kCommandInline,
            .bytes = std::vector<std::byte>(8),
            .imm = number};
  }
  static bool has_room(const Flow& flow) { return flow.posted - flow.completed < kFlowRing; }

  void send(Couple& couple, Flow& flow, std::uint32_t count) {
    for (; count-- > 0 && has_room(flow);)
      couple.sender->post(*flow.from, message(flow.posted++),
                          below(3) == 0 ? Process::Way::kDoorbell : Process::Way::kVcb);
  }

  void write_partly(Couple& couple, Flow& flow) {
    if (couple.partial || !has_room(flow)) return;
    for (std::uint32_t vcb = 0; vcb < 2; ++vcb) {
      if (!couple.sender->vcb_free(vcb)) continue;
      const std::uint64_t missing = std::uint64_t{1} << below(9);
      couple.partial =
          Partial{vcb, flow.from, couple.sender->write_command(*flow.from, message(flow.posted++)),
                  missing};
      couple.sender->vcb(vcb).scoreboard.store(0);
      couple.sender->fill_vcb(vcb, *flow.from, couple.partial->sequence,
                              abi::kAllSegments & ~abi::unused_segments(8) & ~missing);
      return couple.sender->hand_over(vcb);
    }
  }

  void write_the_rest(Couple& couple) {
    if (!couple.partial) return;
    const Partial& partial = *couple.partial;
    couple.sender->fill_vcb(partial.vcb, *partial.qp, partial.sequence, partial.missing);
    couple.partial.reset();
  }

  /// The engine took the command out of the VCB, which became a doorbell: it is all in the queue.
  void forget_partials() {
    for (Couple& couple : couples_)
      if (couple.partial && couple.sender->vcb_free(couple.partial->vcb)) couple.partial.reset();
  }

  void receive(Couple& couple, Flow& flow, std::uint32_t count) {
    for (; count-- > 0 && flow.receives - flow.received < kFlowRing; ++flow.receives)
      couple.receiver->post_receive(*flow.to, {landing(couple)});
  }
  abi::ScatterGather landing(Couple& couple) {
    engine::Buffer*& buffer = buffers_[couple.receiver.get()];
    if (buffer == nullptr) buffer = &couple.receiver->make_buffer(8);
    return buffer->all();
  }

  void turn(unsigned polls) {
    world_.steps(polls);
    forget_partials();
    for (Couple& couple : couples_) poll(couple);
  }

  /// In order, and every one.
  void poll(Couple& couple) {
    while (const auto c = couple.sent->poll()) {
      Flow& flow = flow_of(couple, c->qpn, &Flow::from);
      ASSERT_EQ(c->status, abi::CompletionStatus::kSuccess);
      ASSERT_EQ(c->index, flow.completed) << "of queue pair " << c->qpn;
      ++flow.completed;
      ++completed_;
    }
    while (const auto c = couple.received->poll()) {
      Flow& flow = flow_of(couple, c->qpn, &Flow::to);
      ASSERT_EQ(c->status, abi::CompletionStatus::kSuccess);
      ASSERT_EQ(c->imm, flow.received) << "at queue pair " << c->qpn;
      ++flow.received;
    }
  }
  static Flow& flow_of(Couple& couple, std::uint32_t qpn, TestQp* Flow::*end) {
    return *std::find_if(couple.flows.begin(), couple.flows.end(),
                         [&](const Flow& flow) { return (flow.*end)->qp.qpn.value == qpn; });
  }

  // --- reloads

  Config random_config() {
    Config wanted = config_;
    for (TenantConfig& tenant : wanted.tenants) {
      if (below(3) == 0) continue;
      tenant.levels.clear();
      std::uint32_t pcbs = 0, lanes = 0;
      for (const char* name : kNames) {
        if (below(3) == 0) continue;
        configuration::LevelConfig level{.name = name};
        pcbs += level.pcbs = below(4);
        lanes += level.tvls = below(3);
        level.shared = below(3) != 0;
        tenant.levels.push_back(level);
      }
      if (!tenant.levels.empty()) tenant.levels[below(tenant.levels.size())].is_default = true;
      tenant.pcbs = pcbs + below(5);
      tenant.shared = below(4) != 0;
      tenant.tvls.resize(lanes + 1 + below(2));
      for (configuration::TvlConfig& tvl : tenant.tvls)
        tvl = {.weight = 1 + below(3),
               .execution_credits = 1 + below(2),
               .completion_credits = 1 + below(3),
               .kick_list = 1 + below(4)};
    }
    return wanted;
  }

  void reload() {
    const Config wanted = random_config();
    engine::TenantAllocationChange change;
    for (std::size_t i = 0; i < wanted.tenants.size(); ++i) {
      engine::Tenant& tenant = *adapter_.tenants[i];
      const TenantConfig& entry = wanted.tenants[i];
      change.there.push_back({&tenant, &entry});
      if (any_process(
              [&](const engine::Session& s) { return s.tenant == &tenant && s.level == nullptr; }))
        change.whole.push_back(&tenant);
      for (const auto& level : tenant.levels)
        if (settings_of(entry, *level) == nullptr)
          change.gone_levels.push_back({&tenant, level.get(), in_use(*level)});
      for (const configuration::LevelConfig& level : entry.levels)
        if (std::none_of(tenant.levels.begin(), tenant.levels.end(),
                         [&](const auto& there) { return there->name == level.name; }))
          change.new_levels.push_back({&tenant, make_level(level), nullptr});
    }
    if (allocations_.change(change)) {
      config_ = wanted;
      ++reloads_;
      for (std::size_t i = 0; i < config_.tenants.size(); ++i)
        for (const auto& level : adapter_.tenants[i]->levels)
          level->control.leaving = settings_of(config_.tenants[i], *level) == nullptr;
    }
    finish_leaving();
  }

  bool in_use(const engine::Level& level) const {
    return any_process([&](const engine::Session& s) { return s.level == &level; });
  }

  /// What Reloader::tick() does.
  void finish_leaving() {
    for (std::size_t i = 0; i < config_.tenants.size(); ++i) {
      engine::Tenant& tenant = *adapter_.tenants[i];
      std::vector<engine::Level*> leaving;
      for (const auto& level : tenant.levels)
        if (level->control.leaving && !in_use(*level)) leaving.push_back(level.get());
      for (engine::Level* level : leaving) allocations_.remove_level(tenant, *level);
      const bool whole = any_process(
          [&](const engine::Session& s) { return s.tenant == &tenant && s.level == nullptr; });
      if (!config_.tenants[i].levels.empty() && allocations_.has_whole(tenant) && !whole)
        allocations_.release_whole(tenant);
    }
    allocations_.collect_closed();
  }

  void set_doorbells() {
    adapter_.engine.set_doorbells(
        {.threshold = below(3),
         .dedicated_threshold = below(3),
         .adaptive = below(4) == 0,
         .prune = below(2) == 0 ? PrunePolicy::kNewest : PrunePolicy::kMostOverflow});
  }

  // --- what must hold

  /// Each PCB is free, or collects for one VCB, or carries one command of one queue pair; waiting
  /// for its start in at most one kick list.
  void check_pcbs() {
    std::map<std::uint32_t, std::uint32_t> vcb_of;  // by PCB
    for (std::uint32_t v = 0; v < adapter_.next_vcb.value; ++v) {
      const PcbId pcb = adapter_.engine.intake().functions()[VcbId(v)].pcb;
      if (pcb == collect::kNoPcb) continue;
      ASSERT_TRUE(vcb_of.emplace(pcb.value, v).second) << "PCB " << pcb.value << " with two VCBs";
    }
    std::set<std::pair<std::uint32_t, std::uint32_t>> commands;
    std::map<std::uint32_t, std::uint32_t> of_pair;
    std::uint64_t queued = 0;
    for (std::uint32_t p = 0; p < pcbs().size(); ++p) {
      const collect::PcbState& state = pcbs().state(PcbId(p));
      const auto bound = vcb_of.find(p);
      const bool waits = adapter_.engine.arbitrator().queued(PcbId(p));
      queued += waits;
      if (state.use == collect::PcbUse::kFree) {
        ASSERT_TRUE(bound == vcb_of.end() && !waits) << "PCB " << p << " is free and in use";
      } else if (bound != vcb_of.end()) {
        ASSERT_EQ(state.vcb, VcbId(bound->second));
        ASSERT_EQ(state.use, collect::PcbUse::kPool);
        ASSERT_FALSE(waits) << "PCB " << p << " collects and waits for its start";
      } else {
        const abi::CommandHeader& header = pcbs().pcb(PcbId(p)).header;
        ASSERT_TRUE(commands.emplace(header.qpn, header.sequence).second)
            << "a command in two PCBs, one of them " << p;
        ++of_pair[header.qpn];
      }
    }
    for (const Couple& couple : couples_)
      for (const Flow& flow : couple.flows) {
        ASSERT_EQ(flow.from->qp.sq.commands, of_pair[flow.from->qp.qpn.value]);
        of_pair.erase(flow.from->qp.qpn.value);
      }
    for (const auto& [qpn, count] : of_pair)
      ASSERT_EQ(count, 0u) << "a command of no queue pair, " << qpn;
    std::uint64_t lists = 0;
    for (std::uint16_t i = 0; i < adapter_.engine.tvls().size(); ++i)
      lists += adapter_.engine.arbitrator().counters(TvlId(i)).waiting.value();
    ASSERT_EQ(queued, lists);
  }

  /// Checks the sums of PCBs, and that each group below its guarantee gets a PCB.
  void check_groups() {
    std::map<std::uint16_t, std::uint32_t> held, dedicated, of_tenant;
    std::uint32_t in_use = 0;
    for (std::uint32_t p = 0; p < pcbs().size(); ++p) {
      const collect::PcbState& state = pcbs().state(PcbId(p));
      if (state.use == collect::PcbUse::kPool) ++held[state.group.value], ++in_use;
      if (state.use == collect::PcbUse::kDedicated) ++dedicated[state.group.value];
    }
    const QuotaPool& quota = pcbs().quota();
    ASSERT_EQ(quota.free(), limits().pcbs - in_use);
    std::uint32_t promised = 0;
    for (std::uint16_t g = 0; g < pcbs().max_groups(); ++g) {
      const collect::CollectGroup& group = pcbs().group(QosClassId(g));
      if (!group.used) continue;
      ASSERT_EQ(group.dedicated_in_use.value(), dedicated[g]);
      const bool is_level = group.parent != kNoQosClass;
      of_tenant[is_level ? group.parent.value : g] += held[g];
      if (is_level) {
        ASSERT_EQ(group.pcbs.in_use.value(), held[g]) << "of group " << g;
      }
      promised += group.pcbs.guaranteed.value();
      if (quota.overdrawn() != 0 || !group.pcbs.below_guarantee()) continue;
      const collect::CollectGroup& tenant = is_level ? pcbs().group(group.parent) : group;
      const bool capped = !group.pcbs.may_share || !tenant.pcbs.may_share;
      // Dedicated PCBs count under a hard cap.
      if (capped && group.pcbs.in_use.value() + dedicated[g] >= group.pcbs.guaranteed.value())
        continue;
      collect::PcbPool tried = pcbs();
      ASSERT_TRUE(tried.allocate(QosClassId(g))) << "group " << g << " below its guarantee";
    }
    for (const auto& [g, count] : of_tenant)
      ASSERT_EQ(pcbs().group(QosClassId(g)).all_in_use.value(), count) << "of group " << g;
    ASSERT_EQ(promised + quota.unallocated(), limits().pcbs);
    std::uint32_t configured = 0;
    for (std::size_t i = 0; i < config_.tenants.size(); ++i) {
      const engine::Tenant& tenant = *adapter_.tenants[i];
      configured += config_.tenants[i].pcbs;
      ASSERT_EQ(pcbs().guaranteed(tenant.qos_class), config_.tenants[i].pcbs);
      for (const auto& level : tenant.levels) {
        const auto* entry = settings_of(config_.tenants[i], *level);
        if (entry == nullptr) continue;
        ASSERT_EQ(pcbs().guaranteed(level->qos_class), entry->pcbs);
      }
    }
    ASSERT_EQ(configured, promised);
  }

  void check_credits() {
    const schedule::TvlTable& tvls = adapter_.engine.tvls();
    struct Sum {
      std::uint32_t guaranteed = 0, in_use = 0;
    } execution, completion;
    std::uint32_t pairs = 0;
    for (std::uint16_t i = 0; i < tvls.size(); ++i) {
      const schedule::Tvl& tvl = tvls[TvlId(i)];
      if (!tvl.used) continue;
      for (const auto& [sum, quota] :
           {std::pair(&execution, &tvl.execution), {&completion, &tvl.completion}}) {
        sum->guaranteed += quota->guaranteed.value();
        sum->in_use += quota->in_use.value();
      }
      pairs += tvl.queue_pairs;
    }
    for (const auto& [sum, pool] :
         {std::pair(&execution, &tvls.execution_pool()), {&completion, &tvls.completion_pool()}}) {
      ASSERT_EQ(sum->guaranteed + pool->unallocated(), pool->total());
      ASSERT_EQ(sum->in_use + pool->free(), pool->total());
    }
    // Each is on a TVL for either way of its commands.
    ASSERT_EQ(pairs, 2 * 2 * kFlows * couples_.size());
  }

  /// A doorbell is with the scheduler or in the overflow buffer.
  void check_doorbells() {
    std::uint32_t linked = 0;
    for (const Couple& couple : couples_)
      for (const Flow& flow : couple.flows) {
        const schedule::QpSlot slot(flow.from->qp.slot);
        const auto& scheduler = adapter_.engine.scheduler();
        ASSERT_FALSE(scheduler.overflowed(slot) && scheduler.pending(slot) != 0);
        linked += scheduler.pending(slot) != 0;
      }
    ASSERT_EQ(adapter_.engine.scheduler().linked(), linked);
  }

  std::mt19937 random_;
  engine::World world_;
  engine::Adapter& adapter_;
  engine::TenantAllocations allocations_;
  Config config_;
  std::list<Couple> couples_;
  std::map<Process*, engine::Buffer*> buffers_;
  std::uint32_t reloads_ = 0;
  std::uint64_t completed_ = 0;
};

TEST(ReloadTraffic, AnySequenceKeepsBuffersGuaranteesAndOrder) {
  std::uint64_t reloads = 0, completed = 0, pruned = 0, send_queue_mode = 0;
  constexpr std::uint32_t kSeeds = kSanitized ? 10 : 160;
  for (std::uint32_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ReloadTraffic traffic(seed);
    for (int step = 0; step < 1500; ++step) {
      traffic.step();
      traffic.check();
      ASSERT_FALSE(testing::Test::HasFailure()) << "in step " << step;
    }
    traffic.drain();
    ASSERT_FALSE(testing::Test::HasFailure()) << "in the end";
    reloads += traffic.reloads();
    completed += traffic.completed();
    pruned += traffic.pruned();
    send_queue_mode += traffic.send_queue_mode();
  }
  // It has been through all of it.
  EXPECT_GT(reloads, 3u * kSeeds);
  EXPECT_GT(completed, 125u * kSeeds);
  EXPECT_GT(pruned, 6u * kSeeds);
  EXPECT_GT(send_queue_mode, 6u * kSeeds);
}

}  // namespace
}  // namespace softhca::control
