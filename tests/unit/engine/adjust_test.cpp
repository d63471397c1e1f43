// SPDX-License-Identifier: Apache-2.0

// Guarantees that are lent while they are idle, with commands of processes (mechanism A10).
#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

constexpr AdjustmentPolicy kPolicy{.idle = std::chrono::seconds(4), .keep = 0};

class Adjust : public testing::Test {
 protected:
  Adjust() : pair(Way::kLocal, {.pcbs = 32, .shared = true}) {
    pair.connect_pair({.rnr_retry = 7, .min_rnr_timer = 14});  // 1 ms
    a.tenant.lends = b.tenant.lends = true;
  }

  void look(int times) {
    for (int i = 0; i < times; ++i) {
      pair.run_for(std::chrono::seconds(1));
      engine.lending().adjust(kPolicy);
    }
  }
  const Quota& pcbs(const Process& p) { return engine.pcbs().group(p.tenant.qos_class).pcbs; }

  Pair pair;
  Process& a = *pair.a;
  Process& b = *pair.b;
  Engine& engine = a.adapter.engine;
};

TEST_F(Adjust, WhatIsIdleIsLentAndBackWithTheFirstCommands) {
  look(6);
  EXPECT_EQ(pcbs(a).lent.value(), 32u);
  Buffer& from = a.make_buffer(64);
  Buffer& to = b.make_buffer(64);
  a.post(*pair.qa, {.opcode = abi::Opcode::kRdmaWrite,
                    .sge = {from.all()},
                    .remote_addr = to.addr(),
                    .rkey = to.key});
  ASSERT_TRUE(pair.run_until([&] { return pair.ca->poll().has_value(); }));
  EXPECT_EQ(pcbs(a).lent.value(), 0u);
  EXPECT_EQ(pcbs(a).recalls.value(), 1u);
}

TEST_F(Adjust, ATenantWithoutProgramsLendsAndHasItAgainWhenOneComes) {
  Tenant& c = a.adapter.add_tenant("c", address(3), {}, {.pcbs = 0});
  c.lends = true;
  ASSERT_TRUE(engine.pcbs().set_guarantee(b.tenant.qos_class, 24));
  ASSERT_TRUE(engine.pcbs().set_guarantee(c.qos_class, 8));
  look(1);
  EXPECT_EQ(engine.pcbs().group(c.qos_class).pcbs.lent.value(), 8u);
  EXPECT_EQ(pcbs(b).lent.value(), 0u);
  Process process(a.adapter, c);
  EXPECT_EQ(engine.pcbs().group(c.qos_class).pcbs.lent.value(), 0u);
}

// VCBs handed over with half a command keep their PCBs, which may be borrowed ones, for ever.
TEST_F(Adjust, HalfACommandGivesABorrowedPcbBack) {
  ASSERT_TRUE(engine.pcbs().set_guarantee(b.tenant.qos_class, 1));
  ASSERT_TRUE(engine.pcbs().set_guarantee(a.tenant.qos_class, 63));
  look(6);
  ASSERT_EQ(pcbs(a).lent.value(), 63u);
  Process greedy(a.adapter, b.tenant, 48);
  for (std::uint32_t i = 0; i < 48; ++i) {
    greedy.fill_vcb(i, *pair.qb, 0, 0b1);
    greedy.hand_over(i);
  }
  pair.steps(4);
  ASSERT_EQ(pcbs(b).in_use.value(), 48u);
  while (engine.pcbs().allocate(a.tenant.qos_class)) continue;
  EXPECT_EQ(pcbs(a).in_use.value(), 16u);
  engine.lending().adjust(kPolicy);
  EXPECT_LE(pcbs(b).in_use.value(), 1u);
  while (engine.pcbs().allocate(a.tenant.qos_class)) continue;
  EXPECT_EQ(pcbs(a).in_use.value(), 63u);
  for (std::uint32_t i = 0; i < engine.pcbs().size(); ++i)
    if (engine.pcbs().state(PcbId(i)).use == collect::PcbUse::kPool &&
        engine.pcbs().state(PcbId(i)).group == a.tenant.qos_class)
      engine.pcbs().free(PcbId(i));
  greedy.end();
}

TEST_F(Adjust, SwitchedOffAllOfItComesBack) {
  look(6);
  ASSERT_NE(engine.pcbs().quota().lent(), 0u);
  a.tenant.lends = b.tenant.lends = false;
  look(1);
  EXPECT_EQ(engine.pcbs().quota().lent(), 0u);
}

}  // namespace
}  // namespace softhca::engine
