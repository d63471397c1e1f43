// SPDX-License-Identifier: Apache-2.0

// Parameters changed in use, and what the operator sees.
#include <cerrno>

#include "tests/unit/qos/gsa/pool_fixture.hpp"

namespace softhca::management::gsa {
namespace {

TEST(Operator, ANewNumberOfBuffersPerClientCountsForThoseThatNamedNone) {
  Parameters parameters = unlimited(64);
  PoolFixture fixture(parameters);
  fixture.join(1);
  fixture.join(2, 10);
  parameters.buffers_per_client = 20;
  ASSERT_TRUE(fixture.pool.set_parameters(parameters, fixture.now));
  EXPECT_EQ(fixture.share(1), 20u);
  EXPECT_EQ(fixture.share(2), 10u);
  EXPECT_EQ(fixture.posted(), 30u);
  const std::optional<ShareChange> change = fixture.pool.take_share_change();
  ASSERT_TRUE(change) << "the client did not ask for it, so it is told";
  EXPECT_EQ(change->key, ClientKey(1));
  EXPECT_EQ(change->new_share, 20u);
}

TEST(Operator, FewerBuffersThanClientsAskForAreRefusedWithoutEffect) {
  Parameters parameters = unlimited(64);
  PoolFixture fixture(parameters);
  fixture.join(1);
  fixture.join(2);
  parameters.buffers = 31;
  parameters.sources.part = 0.25;
  const Outcome refused = fixture.pool.set_parameters(parameters, fixture.now);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENOMEM);
  EXPECT_EQ(refused.error().message, "the clients ask for 32 buffers");
  EXPECT_EQ(fixture.pool.parameters(), unlimited(64));
  parameters.buffers = 257;
  EXPECT_EQ(fixture.pool.set_parameters(parameters, fixture.now).error().code, EINVAL);
}

TEST(Operator, BuffersTakenAwayInUseAreGoneWhenTheyAreGivenBack) {
  Parameters parameters = unlimited(64);
  parameters.sources.part = parameters.sources.new_part = 1;
  PoolFixture fixture(parameters);
  fixture.join(1, 8);
  fixture.establish(1, 1);
  EXPECT_EQ(fixture.flood(1, 1, 100), 8u + 28u);
  parameters.buffers = 16;
  ASSERT_TRUE(fixture.pool.set_parameters(parameters, fixture.now));
  EXPECT_EQ(fixture.in_use(), 36u);
  EXPECT_EQ(fixture.posted(), 0u);
  EXPECT_NE(fixture.send(1, 1), Discard::kNone);
  fixture.give_back(1);
  EXPECT_EQ(fixture.posted(), 8u);
  EXPECT_EQ(fixture.flood(1, 1, 100), 8u + 4u);
}

TEST(Operator, ParametersThatMakeNoSenseAreRefused) {
  const auto refused = [](auto change) {
    Parameters parameters;
    change(parameters);
    return !ReceivePool::check(parameters);
  };
  EXPECT_TRUE(ReceivePool::check(Parameters{}));
  EXPECT_TRUE(refused([](Parameters& p) { p.buffers = 0; }));
  EXPECT_TRUE(refused([](Parameters& p) { p.buffers = 15; }));
  EXPECT_TRUE(refused([](Parameters& p) { p.buffers_per_client = 0; }));
  EXPECT_TRUE(refused([](Parameters& p) { p.low_threshold = 2, p.high_threshold = 1; }));
  EXPECT_TRUE(refused([](Parameters& p) { p.sources.part = 0; }));
  EXPECT_TRUE(refused([](Parameters& p) { p.sources.part = 1.01; }));
  EXPECT_TRUE(refused([](Parameters& p) { p.sources.new_part = -1; }));
  EXPECT_TRUE(refused([](Parameters& p) { p.sources.probation = Duration(-1); }));
  EXPECT_TRUE(refused([](Parameters& p) { p.adjustment.window = Duration(0); }));
  EXPECT_TRUE(refused([](Parameters& p) { p.adjustment.raise_after = 9; }));
  EXPECT_TRUE(refused([](Parameters& p) { p.adjustment.lower_after = 0; }));
  EXPECT_TRUE(refused([](Parameters& p) { p.adjustment.most = 0; }));
}

TEST(Operator, SeesClientsAndTheBusiestSources) {
  PoolFixture fixture(unlimited(64));
  fixture.join(7);
  fixture.join(4, 8);
  for (int i = 0; i < 5; ++i) fixture.serve(7, 1);
  fixture.flood(7, 2, 10);
  fixture.serve(4, 3);
  const std::vector<ClientView> clients = fixture.pool.clients();
  ASSERT_EQ(clients.size(), 2u);
  EXPECT_EQ(clients[0].name, "class 4");
  EXPECT_EQ(clients[0].counters.share.value(), 8u);
  EXPECT_EQ(clients[1].counters.received.value(), 15u);
  EXPECT_EQ(clients[1].counters.held.value(), 10u);
  const std::vector<SourceView> sources = fixture.pool.busiest_sources(2);
  ASSERT_EQ(sources.size(), 2u);
  EXPECT_EQ(sources[0].source, host(2));
  EXPECT_EQ(sources[0].recent, 10u);
  EXPECT_EQ(sources[0].held, 10u);
  EXPECT_EQ(sources[1].source, host(1));
  EXPECT_EQ(fixture.pool.busiest_sources(100).size(), 3u);
  for (int i = 0; i < 2; ++i) fixture.pass_window();
  EXPECT_EQ(fixture.pool.busiest_sources(1).front().recent, 0u);
}

TEST(Operator, EveryCauseHasAName) {
  for (std::size_t i = 0; i < kDiscards; ++i)
    EXPECT_STRNE(name_of(static_cast<Discard>(i)), "unknown");
}

}  // namespace
}  // namespace softhca::management::gsa
