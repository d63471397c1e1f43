// SPDX-License-Identifier: Apache-2.0

// The parts of softhcactl measure that measure nothing.
#include <gtest/gtest.h>

#include <cmath>

#include "cli/measure/proposal.hpp"
#include "daemon/configuration/config.hpp"

namespace softhca::cli {
namespace {

constexpr std::uint64_t kGib = 1 << 30;

Json rate(std::uint64_t bytes, unsigned queue_pairs, double messages) {
  return {{"measure", "rate"},
          {"bytes", bytes},
          {"queue_pairs", queue_pairs},
          {"messages_per_second", messages},
          {"memcpy_per_second", 2 * messages}};
}

/// Figures of a host that moves 4 GB/s in messages of 64 bytes (counted as 4 KiB) and more in
/// others.
Figures figures() {
  Figures found;
  found.local = {{.bytes = 64, .best = 1e6, .least = 9e5, .memcpy = 1e8},
                 {.bytes = 1 << 20, .best = 8000, .least = 7000, .memcpy = 10000}};
  found.wire = {{.bytes = 1 << 20, .best = 5000, .least = 5000, .memcpy = 10000}};
  found.together = {2e5, 2e5, 2e5, 2e5};
  found.memory = {.session = 12000,
                  .queue_pair = 1500,
                  .queue_pair_queues = 21632,
                  .queue_pair_depth = 128,
                  .completion_entry = 32,
                  .registered_gib = 2e6};
  found.latency_p50_us = 1.4;
  found.latency_p99_us = 2.7;
  return found;
}

Host host(std::uint64_t memory) {
  Host found;
  found.cores = 2;
  found.memory = memory;
  found.descriptors = 65536;
  found.mappings = 65530;
  return found;
}

double each(const std::vector<Promise>& list, const std::string& key) {
  for (const Promise& promise : list)
    if (promise.key == key) return promise.each;
  ADD_FAILURE() << "no promise of " << key;
  return NAN;
}

TEST(MeasuredRates, SeveralTurnsAndQueuePairs_TheBestCountsForEachSize) {
  const std::vector<WriteRate> rates = rates_of({rate(64, 1, 100),
                                                 rate(64, 8, 300),
                                                 rate(4096, 1, 50),
                                                 rate(64, 8, 200),
                                                 {{"measure", "latency"}, {"p50_us", 1}}});
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_EQ(rates[0].bytes, 64u);
  EXPECT_EQ(rates[0].best, 300);
  EXPECT_EQ(rates[0].least, 200) << "of the turns with eight queue pairs";
  EXPECT_EQ(rates[0].memcpy, 600);
  EXPECT_EQ(rates[1].byte_rate(), 50 * 4096);
}

TEST(MeasuredRates, TenantsThatWriteAtOnce_TheTurnWithTheGreatestSumCounts) {
  EXPECT_EQ(together_of({rate(64, 8, 1), rate(64, 8, 2), rate(64, 8, 4), rate(64, 8, 3)}, 2),
            (std::vector<double>{4, 3}));
}

TEST(MeasuredRates, ObjectWithoutAFigure_IsAnError) {
  EXPECT_THROW(rates_of({{{"measure", "rate"}}}), Json::exception);
  EXPECT_THROW(memory_of(Json::object()), Json::exception);
}

TEST(MeasuredRates, Document_IsReadAsItWasWritten) {
  const Figures before = figures();
  const Figures after = figures_of(document_of(before));
  EXPECT_EQ(document_of(after), document_of(before));
  EXPECT_DOUBLE_EQ(after.local[1].memcpy, 10000);
  EXPECT_EQ(after.together, before.together);
}

TEST(MeasuredRates, DocumentWithAnImpossibleFigure_IsRefused) {
  const Json good = document_of(figures());
  for (const Json& value : {Json(0), Json(-1), Json(1e300), Json("many"), Json()}) {
    Json bad = good;
    bad["wire"][0]["messages_per_second"] = value;
    EXPECT_ANY_THROW(figures_of(bad)) << value;
    bad = good;
    bad["memory"]["queue_pair_queue_bytes"] = value;
    EXPECT_ANY_THROW(figures_of(bad)) << value;
    bad = good;
    bad["together"][0] = value;
    EXPECT_ANY_THROW(figures_of(bad)) << value;
  }
  for (const char* list : {"local", "wire", "together"}) {
    Json bad = good;
    bad[list] = Json::array();
    EXPECT_ANY_THROW(figures_of(bad)) << list;
  }
}

TEST(Proposal, AnyTenantsAndMemory_AreAGoodConfiguration) {
  for (const unsigned tenants : {1u, 2u, 3u, 16u, 17u, 33u, 64u, 100u, kMostMeasuredTenants})
    for (const std::uint64_t memory : {kGib, 4 * kGib, 64 * kGib, 512 * kGib, 1048576 * kGib}) {
      const std::string text = configuration_text(propose(host(memory), tenants, figures()));
      // 16 more: measure starts a daemon with them.
      for (const unsigned count : {tenants, tenants + 16}) {
        const auto config = configuration::parse_config(text + tenants_text(count), "test");
        ASSERT_TRUE(config) << count << " tenants: " << config.error().message << "\n" << text;
        ASSERT_EQ(config->tenants.size(), count);
      }
    }
}

TEST(Proposal, IsolatedCore_IsForTheEngineThatPolls) {
  Host with_core = host(4 * kGib);
  with_core.isolated_core = 1;
  const auto config = configuration::parse_config(
      configuration_text(propose(with_core, 2, figures())) + tenants_text(2), "test");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->daemon.engine_cpu, 1u);
  EXPECT_EQ(configuration_text(propose(host(4 * kGib), 2, figures())).find("[daemon]"),
            std::string::npos);
}

TEST(Proposal, LittleMemory_FewerQueuePairsThanTheDefault) {
  const Proposal small = propose(host(4 * kGib), 4, figures());
  EXPECT_LE(static_cast<double>(small.queue_pairs) * figures().memory.queue_pair_queues,
            static_cast<double>(4 * kGib) / 8);
  EXPECT_GT(small.queue_pairs, 8192u);
  EXPECT_EQ(propose(host(64 * kGib), 16, figures()).queue_pairs, 131072u);
}

TEST(Proposal, MinimumRates_AreFourFifthsOfTheLeastByteRate) {
  const double least = 1e6 * 4096;  // 64 bytes count as 4 KiB
  EXPECT_NEAR(static_cast<double>(propose(host(4 * kGib), 4, figures()).min_bytes_per_second),
              0.8 * least, 1 << 20);
  Figures slow_wire = figures();
  slow_wire.wire[0].best = 100;
  EXPECT_NEAR(static_cast<double>(propose(host(4 * kGib), 4, slow_wire).min_bytes_per_second),
              0.8 * 100 * (1 << 20), 1 << 20);
}

TEST(Proposal, ShellWithFewOpenFiles_IsWarnedOf) {
  Host few = host(4 * kGib);
  const Proposal proposal = propose(few, 4, figures());
  EXPECT_EQ(why_fewer_sessions(few, proposal), "");
  few.descriptors = 800;
  EXPECT_NE(why_fewer_sessions(few, proposal).find("room for 100 open devices"), std::string::npos);
}

TEST(Promises, EqualShares_AddUpToAtMostTheTotals) {
  for (const unsigned tenants : {1u, 3u, 16u, 100u}) {
    const Host of = host(64 * kGib);
    const auto list = promises(of, propose(of, tenants, figures()), figures());
    for (const Promise& promise : list) {
      EXPECT_GT(promise.each, 0) << promise.key;
      EXPECT_LE(promise.each * tenants, promise.all * (1 + 1e-9)) << promise.key;
    }
  }
}

TEST(Promises, TenantsAtOnceReachLess_TheirSumIsPromised) {
  const Host of = host(4 * kGib);
  EXPECT_DOUBLE_EQ(each(promises(of, propose(of, 4, figures()), figures()), "small_writes"), 2e5);
  Figures enough_cores = figures();
  enough_cores.together = {4e5, 4e5, 4e5, 4e5};
  EXPECT_DOUBLE_EQ(each(promises(of, propose(of, 4, enough_cores), enough_cores), "small_writes"),
                   2.5e5);
}

TEST(Promises, FewMappings_BoundMemoryRegions) {
  Host of = host(64 * kGib);
  of.mappings = 8192;
  EXPECT_LE(each(promises(of, propose(of, 4, figures()), figures()), "memory_regions"), 2048);
}

TEST(Promises, PoolsUsedUp_TakeTheMemoryOfAllObjects) {
  const Proposal proposal = propose(host(4 * kGib), 4, figures());
  const double most = most_memory(proposal, figures().memory, 50e6);
  EXPECT_GT(most, 50e6 + static_cast<double>(proposal.queue_bytes));
  EXPECT_LT(most, static_cast<double>(kGib)) << "an eighth of the memory, and a little";
}

}  // namespace
}  // namespace softhca::cli
