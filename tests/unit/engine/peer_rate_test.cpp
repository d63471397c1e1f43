// SPDX-License-Identifier: Apache-2.0

// Rate limits on the data that peers send to a tenant and read from it. Peers stay within the
// limit, reliable connections lose nothing, and other tenants are unaffected.
#include <map>

#include "tests/unit/engine/fixture/pair.hpp"

namespace softhca::engine {
namespace {

using transport::Count;

class PeerRate : public BothWays {
 protected:
  PeerRate() : pair(GetParam()) {
    pair.connect_pair();
    from = &a.make_buffer(5000);
    to = &b.make_buffer(5000);
  }
  ~PeerRate() { pair.expect_idle(); }

  void limit(PeerGate& gate, const RateLimits& limits) {
    b.adapter.engine.peer_rates().set(gate, limits);
  }
  Work work(abi::Opcode opcode, std::uint32_t bytes) {
    return {.opcode = opcode,
            .sge = {from->part(0, bytes)},
            .remote_addr = to->addr(),
            .rkey = to->key};
  }
  /// Messages, four of them under way, for that long; how many were done.
  int transfer_for(Duration duration, abi::Opcode opcode, std::uint32_t bytes, TestQp& by,
                   TestCq& cq) {
    const Time end = pair.now + duration;
    int posted = 0, done = 0;
    while (pair.now < end || done < posted) {
      for (; pair.now < end && posted < done + 4; ++posted) a.post(by, work(opcode, bytes));
      std::optional<Completed> got;
      if (!pair.run_until([&] { return (got = cq.poll()).has_value(); })) break;
      EXPECT_EQ(got->status, Status::kSuccess);
      if (got->status != Status::kSuccess) break;
      ++done;
    }
    EXPECT_EQ(done, posted);
    return done;
  }
  int transfer_for(Duration duration, abi::Opcode opcode, std::uint32_t bytes) {
    return transfer_for(duration, opcode, bytes, *pair.qa, *pair.ca);
  }
  static std::uint64_t counted(const Process& process, Count what) {
    return process.tenant.counters.value(what);
  }

  Pair pair;
  Process& a = *pair.a;
  Process& b = *pair.b;
  PeerGates& gates = b.tenant.peer_rates;
  Buffer* from;
  Buffer* to;
};

TEST_P(PeerRate, BytesSentToATenant) {
  limit(gates.inbound, {.bytes_per_second = 1'000'000, .burst_bytes = 20'000});
  const int done = transfer_for(std::chrono::seconds(1), abi::Opcode::kRdmaWrite, 5000);
  EXPECT_GE(done, 190);
  EXPECT_LE(done, 212);
  EXPECT_GT(gates.inbound.held_ns.value(), 10'000'000u) << "it was in debt";
  EXPECT_GE(gates.inbound.bytes.value(), 5000u * static_cast<unsigned>(done));
  EXPECT_EQ(counted(b, Count::kRateNakSent) != 0, !local());
  EXPECT_EQ(counted(b, Count::kRnrNakSent), 0u);
  EXPECT_EQ(counted(a, Count::kRnrNakReceived) != 0, !local());
  EXPECT_EQ(counted(a, Count::kAckTimeouts), 0u);
}

TEST_P(PeerRate, MessagesSentToATenant) {
  limit(gates.inbound, {.messages_per_second = 1000, .burst_messages = 20});
  const int done = transfer_for(std::chrono::milliseconds(500), abi::Opcode::kRdmaWrite, 8);
  EXPECT_GE(done, 475);
  EXPECT_LE(done, 530);
}

TEST_P(PeerRate, BytesReadFromATenant) {
  to->fill(7);
  limit(gates.served, {.bytes_per_second = 1'000'000, .burst_bytes = 5000});
  const int done = transfer_for(std::chrono::seconds(1), abi::Opcode::kRdmaRead, 5000);
  EXPECT_GE(done, 195);
  EXPECT_LE(done, 207);
  EXPECT_TRUE(from->equals(*to));
  EXPECT_GE(gates.served.bytes.value(), 5000u * static_cast<unsigned>(done));
  EXPECT_EQ(counted(a, Count::kAckTimeouts), 0u);
}

TEST_P(PeerRate, WhatItReadsAndSendsItselfIsNotLimited) {
  limit(gates.inbound, {.bytes_per_second = 1000, .burst_bytes = 1});
  limit(gates.served, {.bytes_per_second = 1000, .burst_bytes = 1});
  Buffer& near = b.make_buffer(5000);
  Buffer& far = a.make_buffer(5000);
  for (const abi::Opcode opcode : {abi::Opcode::kRdmaWrite, abi::Opcode::kRdmaRead})
    for (int i = 0; i < 20; ++i) {
      b.post(*pair.qb,
             {.opcode = opcode, .sge = {near.all()}, .remote_addr = far.addr(), .rkey = far.key});
      const Time before = pair.now;
      EXPECT_EQ(pair.wait_status(*pair.cb), Status::kSuccess);
      EXPECT_LT(pair.now - before, std::chrono::milliseconds(5));
    }
}

/// Sends arrive whole and in order, even if the engine refuses some of their packets.
TEST_P(PeerRate, SendsArriveWholeAndInOrder) {
  limit(gates.inbound, {.bytes_per_second = 1'000'000, .burst_bytes = 2500});
  std::vector<Buffer*> sent, received;
  for (unsigned i = 0; i < 12; ++i) {
    sent.push_back(&a.make_buffer(4000 + i));
    sent.back()->fill(i);
    received.push_back(&b.make_buffer(5000));
    b.post_receive(*pair.qb, {received.back()->all()});
  }
  const Time began = pair.now;
  for (Buffer* buffer : sent) a.post(*pair.qa, {.sge = {buffer->all()}});
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
    const auto got = pair.wait(*pair.cb);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->status, Status::kSuccess);
    EXPECT_EQ(got->byte_len, sent[i]->size);
    EXPECT_EQ(std::memcmp(sent[i]->data(), received[i]->data(), sent[i]->size), 0) << i;
  }
  EXPECT_GE(pair.now - began, std::chrono::milliseconds(40));
}

/// Each refusal is followed by progress: a peer that has few retries does not run out of them.
TEST_P(PeerRate, OneRnrRetryIsEnough) {
  TestQp& near = a.make_qp(*pair.ca, *pair.ca);
  TestQp& far = b.make_qp(*pair.cb, *pair.cb);
  connect(a, near, b, far, {.rnr_retry = 1});
  limit(gates.inbound, {.bytes_per_second = 1'000'000, .burst_bytes = 1});
  transfer_for(std::chrono::milliseconds(300), abi::Opcode::kRdmaWrite, 5000, near, *pair.ca);
  b.adapter.engine.peer_rates().set(gates.inbound, {});
}

TEST_P(PeerRate, WhatWaitsHoldsNothing) {
  limit(gates.inbound, {.bytes_per_second = 10'000, .burst_bytes = 1});
  for (int i = 0; i < 8; ++i) a.post(*pair.qa, work(abi::Opcode::kRdmaWrite, 1000));
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  EXPECT_TRUE(pair.run_until([&] { return pair.qa->qp.sq.commands == 0; }));
  EXPECT_TRUE(pair.qa->qp.sq.stalled);
  limit(gates.inbound, {});
  for (int i = 0; i < 7; ++i) EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
}

TEST_P(PeerRate, OfAQueuePair) {
  TestCq& other_cq = a.make_cq();
  TestQp& near = a.make_qp(other_cq, other_cq);
  TestQp& far = b.make_qp(*pair.cb, *pair.cb);
  connect(a, near, b, far);
  // A read that is not answered for longer than timeout and retries allow ends its connection.
  TestCq& limited_cq = a.make_cq();
  TestQp& limited_near = a.make_qp(limited_cq, limited_cq);
  TestQp& limited_far = b.make_qp(*pair.cb, *pair.cb);
  connect(a, limited_near, b, limited_far, {.timeout = 14});
  limited_far.qp.sq.rates = std::make_unique<QpRates>();
  PeerGates& own = limited_far.qp.sq.rates->peers;
  limit(own.inbound, {.messages_per_second = 100, .burst_messages = 1});
  limit(own.served, {.messages_per_second = 100, .burst_messages = 1});
  for (const abi::Opcode opcode : {abi::Opcode::kRdmaWrite, abi::Opcode::kRdmaRead}) {
    const int done =
        transfer_for(std::chrono::milliseconds(200), opcode, 1000, limited_near, limited_cq);
    EXPECT_LE(done, 30);
    EXPECT_GE(done, 19) << "reads that wait are asked for again meanwhile";
    EXPECT_GE(transfer_for(std::chrono::milliseconds(20), opcode, 1000, near, other_cq), 200);
  }
}

/// It goes while others wait to send to it, and to read from it.
TEST_P(PeerRate, APeerThatGoesLeavesNobodyWaiting) {
  limit(gates.inbound, {.messages_per_second = 1, .burst_messages = 1});
  limit(gates.served, {.messages_per_second = 1, .burst_messages = 1});
  for (const abi::Opcode opcode : {abi::Opcode::kRdmaWrite, abi::Opcode::kRdmaRead})
    for (int i = 0; i < 3; ++i) a.post(*pair.qa, work(opcode, 1000));
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  pair.run_for(std::chrono::milliseconds(1));
  b.destroy(*pair.qb);
  pair.qb = nullptr;
  limit(gates.inbound, {});
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kRetryExceededError);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(pair.wait_status(*pair.ca), Status::kFlushError);
}

TEST_P(PeerRate, AQueuePairThatIsResetWaitsNoMore) {
  limit(gates.inbound, {.messages_per_second = 1, .burst_messages = 1});
  limit(gates.served, {.messages_per_second = 1, .burst_messages = 1});
  for (int i = 0; i < 3; ++i) a.post(*pair.qa, work(abi::Opcode::kRdmaRead, 1000));
  EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  pair.run_for(std::chrono::milliseconds(1));
  a.reset(*pair.qa);
  b.reset(*pair.qb);
  limit(gates.served, {});
  pair.run_for(std::chrono::seconds(2));
  EXPECT_FALSE(pair.ca->poll());
}

TEST_P(PeerRate, OfAnUnreliableConnectionWhatIsAboveItIsDropped) {
  const QpOptions options{.type = QpType::kUc};
  TestQp& near = a.make_qp(*pair.ca, *pair.ca, options);
  TestQp& far = b.make_qp(*pair.cb, *pair.cb, options);
  connect(a, near, b, far);
  limit(gates.inbound, {.messages_per_second = 1000, .burst_messages = 1});
  const int sent =
      transfer_for(std::chrono::milliseconds(20), abi::Opcode::kRdmaWrite, 100, near, *pair.ca);
  const std::uint64_t taken = counted(b, Count::kWriteRequests);
  EXPECT_GE(taken, 18u);
  EXPECT_LE(taken, 23u);
  pair.run_for(std::chrono::milliseconds(1));
  EXPECT_EQ(taken + counted(b, Count::kRateDropped), static_cast<std::uint64_t>(sent));
}

TEST_P(PeerRate, DatagramsAboveItAreDropped) {
  const QpOptions options{.type = QpType::kUd};
  TestQp& near = a.make_qp(*pair.ca, *pair.ca, options);
  TestQp& far = b.make_qp(*pair.cb, *pair.cb, options);
  bring_up_datagram(a, near, 0x1234);
  bring_up_datagram(b, far, 0x1234);
  limit(gates.inbound, {.messages_per_second = 1, .burst_messages = 3});
  const std::uint32_t handle = a.make_ah(address(2));
  for (int i = 0; i < 10; ++i) b.post_receive(far, {to->all()});
  for (int i = 0; i < 10; ++i) {
    a.post(near, {.sge = {from->part(0, 100)},
                  .remote_qpn = far.qp.qpn.value,
                  .remote_qkey = 0x1234,
                  .address_handle = handle});
    EXPECT_EQ(pair.wait_status(*pair.ca), Status::kSuccess);
  }
  EXPECT_TRUE(pair.run_until([&] { return counted(b, Count::kRateDropped) == 7; }));
  EXPECT_EQ(pair.cb->poll_all().size(), 3u);
}

/// Queue pairs that read from a tenant with a rate, three reads of each under way.
class ReadRate : public PeerRate {
 protected:
  ~ReadRate() {
    limit(gates.served, {});
    for (const auto& [qpn, reader] : readers_) a.destroy(*reader);
    for (TestQp* target : targets_) b.destroy(*target);
  }

  void start(const RateLimits& limits, unsigned queue_pairs, std::uint32_t bytes) {
    bytes_ = bytes;
    for (unsigned i = 0; i < queue_pairs; ++i) {
      TestQp& reader = a.make_qp(cq_, cq_);
      targets_.push_back(&b.make_qp(*pair.cb, *pair.cb));
      // With many of them each waits for longer than its timeout and retries.
      connect(a, reader, b, *targets_.back(), {.timeout = 13});
      readers_[reader.qp.qpn.value] = &reader;
    }
    limit(gates.served, limits);
    for (const auto& [qpn, reader] : readers_)
      for (int i = 0; i < 3; ++i) read(*reader);
  }
  /// For that long, or until none is under way; `more`: each that is done is followed by another.
  void go_on(Duration duration, bool more) {
    for (const Time end = pair.now + duration; pair.now < end && under_way_ > 0;) {
      std::optional<Completed> got;
      pair.run_until([&] { return (got = cq_.poll()) || pair.now >= end; });
      if (!got) continue;
      ASSERT_EQ(got->status, Status::kSuccess);
      --under_way_;
      ++done_;
      if (more) read(*readers_[got->qpn]);
    }
  }
  /// Expects that, after a burst, the engine serves `rate` bytes a second, and that at most 2 % of
  /// the served bytes are not used.
  void expect_rate(double rate) {
    go_on(std::chrono::milliseconds(500), true);
    const std::uint64_t before = gates.served.bytes.value();
    go_on(std::chrono::seconds(2), true);
    const auto served = static_cast<double>(gates.served.bytes.value() - before);
    EXPECT_GE(served, 0.97 * 2 * rate);
    EXPECT_LE(served, 2 * rate + 8192 + bytes_);
    go_on(std::chrono::seconds(20), false);
    EXPECT_EQ(under_way_, 0u);
    EXPECT_LE(static_cast<double>(gates.served.bytes.value()),
              1.02 * static_cast<double>(done_ * bytes_));
  }

 private:
  void read(TestQp& reader) {
    a.post(reader, {.opcode = abi::Opcode::kRdmaRead,
                    .sge = {near_.part(0, bytes_)},
                    .remote_addr = far_.addr(),
                    .rkey = far_.key});
    ++under_way_;
  }

  Buffer& near_ = a.make_buffer(20'000);
  Buffer& far_ = b.make_buffer(20'000);
  TestCq& cq_ = a.make_cq(256);
  std::map<std::uint32_t, TestQp*> readers_;
  std::vector<TestQp*> targets_;
  std::uint32_t bytes_ = 0;
  unsigned under_way_ = 0;
  std::uint64_t done_ = 0;
};

constexpr RateLimits kFewReads{.messages_per_second = 100, .burst_messages = 1};
constexpr RateLimits kManyReads{.messages_per_second = 1000, .burst_messages = 8};
constexpr RateLimits kBytesRead{.bytes_per_second = 1'000'000, .burst_bytes = 8192};

TEST_P(ReadRate, FewOfAQueuePair) {
  start(kFewReads, 1, 64);
  expect_rate(100 * 64);
}

TEST_P(ReadRate, FewOfManyQueuePairs) {
  start(kFewReads, 24, 64);
  expect_rate(100 * 64);
}

TEST_P(ReadRate, FewLongOnes) {
  start(kFewReads, 16, 20'000);
  expect_rate(100 * 20'000);
}

TEST_P(ReadRate, ManyOfAQueuePair) {
  start(kManyReads, 1, 64);
  expect_rate(1000 * 64);
}

TEST_P(ReadRate, ManyOfManyQueuePairs) {
  start(kManyReads, 24, 64);
  expect_rate(1000 * 64);
}

TEST_P(ReadRate, ManyLongOnes) {
  start(kManyReads, 4, 20'000);
  expect_rate(1000 * 20'000);
}

TEST_P(ReadRate, Bytes) {
  start(kBytesRead, 1, 1000);
  expect_rate(1e6);
}

TEST_P(ReadRate, BytesOfManyQueuePairs) {
  start(kBytesRead, 24, 1000);
  expect_rate(1e6);
}

TEST_P(ReadRate, BytesOfLongReads) {
  start(kBytesRead, 8, 20'000);
  expect_rate(1e6);
}

INSTANTIATE_TEST_SUITE_P(Engine, PeerRate, ::testing::Values(Way::kLocal, Way::kWire), way_name);
INSTANTIATE_TEST_SUITE_P(Engine, ReadRate, ::testing::Values(Way::kLocal, Way::kWire), way_name);

}  // namespace
}  // namespace softhca::engine
