// SPDX-License-Identifier: Apache-2.0

// Rate limits of tenants, levels and queue pairs: they hold, and other tenants are unaffected.
#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

class RateLimit : public BothWays {
 protected:
  RateLimit() : pair(GetParam()) {
    pair.connect_pair();
    from = &a.make_buffer(1000);
    to = &b.make_buffer(1000);
  }
  ~RateLimit() { pair.expect_idle(); }

  /// Writes one after the other for that long; how many were done.
  int write_for(Duration duration, Process::Way way) {
    const Time end = pair.now + duration;
    int done = 0;
    while (pair.now < end) {
      a.post(*pair.qa,
             {.opcode = abi::Opcode::kRdmaWrite,
              .sge = {from->all()},
              .remote_addr = to->addr(),
              .rkey = to->key},
             way);
      if (!pair.run_until([&] { return pair.ca->poll().has_value(); }, std::chrono::seconds(1)))
        break;
      ++done;
    }
    return done;
  }

  Pair pair;
  Process& a = *pair.a;
  Process& b = *pair.b;
  Buffer* from;
  Buffer* to;
};

TEST_P(RateLimit, MessagesASecond) {
  a.adapter.engine.rates().set(a.tenant.rate, {.messages_per_second = 1000, .burst_messages = 10});
  for (const Process::Way way : {Process::Way::kVcb, Process::Way::kDoorbell}) {
    const int done = write_for(std::chrono::milliseconds(200), way);
    EXPECT_GE(done, 195);
    EXPECT_LE(done, 215);
  }
  EXPECT_GT(a.tenant.rate.held_ns.value(), 300'000'000u);
}

TEST_P(RateLimit, BytesASecond) {
  a.adapter.engine.rates().set(a.tenant.rate, {.bytes_per_second = 1'000'000, .burst_bytes = 1000});
  const int done = write_for(std::chrono::milliseconds(200), Process::Way::kVcb);
  EXPECT_GE(done, 195);
  EXPECT_LE(done, 205);
}

TEST_P(RateLimit, OfAQueuePair) {
  pair.qa->qp.sq.rates = std::make_unique<QpRates>();
  a.adapter.engine.rates().set(pair.qa->qp.sq.rates->sent,
                               {.messages_per_second = 1000, .burst_messages = 10});
  for (const Process::Way way : {Process::Way::kVcb, Process::Way::kDoorbell}) {
    const int done = write_for(std::chrono::milliseconds(200), way);
    EXPECT_GE(done, 195);
    EXPECT_LE(done, 215);
  }
}

// All are posted at once: they wait in the send queue.
TEST_P(RateLimit, OfCommandsInTheSendQueue) {
  pair.qa->qp.sq.rates = std::make_unique<QpRates>();
  a.adapter.engine.rates().set(pair.qa->qp.sq.rates->sent,
                               {.messages_per_second = 1000, .burst_messages = 1});
  const Time began = pair.now;
  for (int i = 0; i < 11; ++i)
    a.post(*pair.qa,
           {.opcode = abi::Opcode::kRdmaWrite,
            .sge = {from->all()},
            .remote_addr = to->addr(),
            .rkey = to->key},
           Process::Way::kDoorbell);
  for (int i = 0; i < 11; ++i) EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  EXPECT_GE(pair.now - began, std::chrono::milliseconds(10));
  EXPECT_LE(pair.now - began, std::chrono::milliseconds(12));
}

TEST_P(RateLimit, AnotherTenantIsNotHeldBack) {
  a.adapter.engine.rates().set(a.tenant.rate, {.messages_per_second = 1, .burst_messages = 1});
  write_for(std::chrono::milliseconds(1), Process::Way::kVcb);
  ASSERT_TRUE(a.tenant.rate.closed());
  Buffer& back = b.make_buffer(100);
  Buffer& target = a.make_buffer(100);
  for (int i = 0; i < 20; ++i) {
    b.post(*pair.qb, {.opcode = abi::Opcode::kRdmaWrite,
                      .sge = {back.all()},
                      .remote_addr = target.addr(),
                      .rkey = target.key});
    const Time before = pair.now;
    EXPECT_EQ(pair.wait_status(*pair.cb), Status::kSuccess);
    EXPECT_LT(pair.now - before, std::chrono::milliseconds(5));
  }
  a.adapter.engine.rates().set(a.tenant.rate, {});
  EXPECT_GE(write_for(std::chrono::milliseconds(1), Process::Way::kVcb), 1);
}

INSTANTIATE_TEST_SUITE_P(Engine, RateLimit, ::testing::Values(Way::kLocal, Way::kWire), way_name);

}  // namespace
}  // namespace softhca::engine
