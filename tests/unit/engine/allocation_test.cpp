// SPDX-License-Identifier: Apache-2.0

// Poll steps allocate no heap memory: after the first use of each mechanism, a step calls neither
// operator new nor malloc. This test is a binary of its own because it replaces malloc.
#include <execinfo.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "tests/unit/engine/fixture/pair.hpp"

namespace {

bool counting = false;
bool none_expected = false;  ///< the first one says where it is
std::size_t allocations = 0;

void count_allocation() {
  if (!counting || ++allocations != 1 || !none_expected) return;
  counting = false;
  void* stack[32];
  ::backtrace_symbols_fd(stack, ::backtrace(stack, 32), STDERR_FILENO);
  counting = true;
}

class Counting {
 public:
  Counting() { counting = true; }
  ~Counting() { counting = false; }
};

}  // namespace

// The C library's own (glibc exports these names for it), behind a counter.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* before, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

void* malloc(std::size_t bytes) {
  count_allocation();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  count_allocation();
  return __libc_calloc(count, bytes);
}
void* realloc(void* before, std::size_t bytes) {
  count_allocation();
  return __libc_realloc(before, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  count_allocation();
  return __libc_memalign(alignment, bytes);
}
// What operator new calls for aligned memory, in some versions of libstdc++.
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  count_allocation();
  *out = __libc_memalign(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}
}

namespace softhca::engine {
namespace {

using std::chrono::microseconds;

TEST(Allocations, AreCounted) {
  const std::size_t before = allocations;
  {
    const Counting here;
    static void* volatile kept;
    kept = ::operator new(100);
    ::operator delete(kept);
    kept = ::operator new(100, std::align_val_t(64));
    ::operator delete(kept, std::align_val_t(64));
    kept = std::malloc(100);
    kept = std::realloc(kept, 200);
    std::free(kept);
    kept = std::calloc(1, 100);
    std::free(kept);
  }
  EXPECT_EQ(allocations, before + 5);
}

class Steps : public BothWays {
 protected:
  static constexpr std::uint32_t kBytes = 3000;  ///< three packets
  static constexpr unsigned kWarmUps = 3;
  static constexpr unsigned kRounds = 20;

  Steps() : pair(GetParam()) {
    for (const auto& adapter : pair.adapters) adapter->sink.completions.reserve(10'000);
  }

  void step(Duration tick = microseconds(1)) {
    pair.now += tick;
    for (const auto& adapter : pair.adapters) {
      const Counting here;
      adapter->engine.poll(pair.now);
    }
  }
  void steps(unsigned n) {
    while (n-- > 0) step();
  }
  /// Steps until `cq` has had `n` completions.
  void expect_completions(TestCq& cq, unsigned n) {
    for (unsigned i = 0; n != 0 && i < 20'000; ++i) {
      step();
      for (std::optional<Completed> got; n != 0 && (got = cq.poll()); --n)
        EXPECT_EQ(got->status, Status::kSuccess);
    }
    EXPECT_EQ(n, 0u) << "completions are lacking";
  }
  /// Rounds that are all alike allocate nothing once the first ones are over.
  template <class Round>
  void expect_none(Round&& round) {
    for (unsigned i = 0; i < kWarmUps; ++i) round();
    allocations = 0;
    none_expected = true;
    for (unsigned i = 0; i < kRounds; ++i) round();
    none_expected = false;
    EXPECT_EQ(allocations, 0u);
  }

  Work near_work(abi::Opcode opcode, std::size_t bytes = kBytes) {
    return {.opcode = opcode, .sge = {near.part(0, bytes)}};
  }
  Work remote_work(abi::Opcode opcode, std::size_t bytes = kBytes) {
    Work work = near_work(opcode, bytes);
    work.remote_addr = far.addr();
    work.rkey = far.key;
    return work;
  }
  void post_receives(unsigned n) {
    while (n-- > 0) pair.b->post_receive(*pair.qb, {far.all()});
  }
  /// By VCBs, and when these are used up by doorbells.
  void post(const std::vector<Work>& works) {
    for (const Work& work : works) pair.a->post(*pair.qa, work);
  }
  std::vector<Work> every_request() {
    Work in_line{.flags = abi::kCommandSignaled | abi::kCommandInline,
                 .sge = {},
                 .bytes = std::vector<std::byte>(64)};
    return {near_work(abi::Opcode::kSend),
            near_work(abi::Opcode::kSendWithImm, 0),
            in_line,
            remote_work(abi::Opcode::kRdmaWrite),
            remote_work(abi::Opcode::kRdmaWriteWithImm),
            remote_work(abi::Opcode::kRdmaRead),
            remote_work(abi::Opcode::kFetchAdd, 8),
            remote_work(abi::Opcode::kCompareSwap, 8)};
  }
  static constexpr unsigned kRequests = 8, kReceives = 4;  ///< of every_request()

  Pair pair;
  Buffer& near = pair.a->make_buffer(kBytes);
  Buffer& far = pair.b->make_buffer(kBytes);
};

TEST_P(Steps, OfReliableConnections) {
  pair.connect_pair();
  const std::vector<Work> works = every_request();
  expect_none([&] {
    post_receives(kReceives);
    post(works);
    expect_completions(*pair.ca, kRequests);
    expect_completions(*pair.cb, kReceives);
  });
}

TEST_P(Steps, OfDoorbells) {
  pair.connect_pair();
  const std::vector<Work> works = every_request();
  expect_none([&] {
    post_receives(kReceives);
    for (const Work& work : works) pair.a->post(*pair.qa, work, Process::Way::kDoorbell);
    expect_completions(*pair.ca, kRequests);
    expect_completions(*pair.cb, kReceives);
  });
}

TEST_P(Steps, OfReceiversThatAreNotReady) {
  pair.connect_pair();
  expect_none([&] {
    post({near_work(abi::Opcode::kSend)});
    steps(100);
    post_receives(1);
    expect_completions(*pair.ca, 1);
    expect_completions(*pair.cb, 1);
  });
}

TEST_P(Steps, OfUnreliableConnections) {
  pair.connect_pair({}, {.type = QpType::kUc});
  const std::vector<Work> works = {near_work(abi::Opcode::kSend),
                                   remote_work(abi::Opcode::kRdmaWrite),
                                   remote_work(abi::Opcode::kRdmaWriteWithImm)};
  expect_none([&] {
    post_receives(2);
    post(works);
    expect_completions(*pair.ca, 3);
    expect_completions(*pair.cb, 2);
  });
}

TEST_P(Steps, OfDatagrams) {
  pair.qa = &pair.a->make_qp(*pair.ca, *pair.ca, {.type = QpType::kUd});
  pair.qb = &pair.b->make_qp(*pair.cb, *pair.cb, {.type = QpType::kUd});
  bring_up_datagram(*pair.a, *pair.qa, 1);
  bring_up_datagram(*pair.b, *pair.qb, 1);
  Work work = near_work(abi::Opcode::kSend, 500);
  work.remote_qpn = pair.qb->qp.qpn.value;
  work.remote_qkey = 1;
  work.address_handle = pair.a->make_ah(address(2));
  expect_none([&] {
    post_receives(2);
    post({work, work});
    expect_completions(*pair.ca, 2);
    expect_completions(*pair.cb, 2);
  });
}

TEST_P(Steps, OfMulticast) {
  const Gid group = Gid::from_ipv4(0xe0000109);
  pair.qa = &pair.a->make_qp(*pair.ca, *pair.ca, {.type = QpType::kUd});
  bring_up_datagram(*pair.a, *pair.qa, 1);
  std::vector<TestQp*> members;
  for (int i = 0; i < 3; ++i) {
    members.push_back(&pair.b->make_qp(*pair.cb, *pair.cb, {.type = QpType::kUd}));
    bring_up_datagram(*pair.b, *members.back(), 1);
    ASSERT_TRUE(pair.b->adapter.engine.multicast().attach(members.back()->qp, group));
  }
  Work work = near_work(abi::Opcode::kSend, 500);
  work.remote_qpn = kMulticastQpn.value;
  work.remote_qkey = 1;
  work.address_handle = pair.a->make_ah(group);
  expect_none([&] {
    for (TestQp* member : members) pair.b->post_receive(*member, {far.all()});
    post({work});
    expect_completions(*pair.ca, 1);
    expect_completions(*pair.cb, 3);
  });
}

TEST_P(Steps, OfSharedReceiveQueues) {
  TestSrq& srq = pair.b->make_srq();
  pair.srq = &srq;
  pair.connect_pair();
  SrqPolicy policy;
  policy.limits.fill(8);
  provision(pair.b->adapter.engine, pair.b->tenant, policy);
  const std::vector<Work> works = every_request();
  std::uint32_t posted = 0;
  expect_none([&] {
    for (unsigned i = 0; i < kReceives; ++i) srq.ring.post(posted++ % 16, {far.all()});
    post(works);
    expect_completions(*pair.ca, kRequests);
    expect_completions(*pair.cb, kReceives);
  });
}

/// Sends to neighbours that are not resolved yet. Already the first datagram allocates nothing.
TEST_P(Steps, OfDatagramsToNobody) {
  pair.qa = &pair.a->make_qp(*pair.ca, *pair.ca, {.type = QpType::kUd});
  bring_up_datagram(*pair.a, *pair.qa, 1);
  std::vector<Work> works;
  for (std::uint32_t host = 10; host < 24; ++host) {
    works.push_back(near_work(abi::Opcode::kSend, 500));
    works.back().remote_qpn = 99;
    works.back().address_handle = pair.a->make_ah(address(host));
  }
  allocations = 0;
  none_expected = true;
  for (const Work& work : works) {
    post({work});
    steps(20);
  }
  none_expected = false;
  EXPECT_EQ(allocations, 0u);
}

/// A target has nothing to keep of a queue that has no limits, however many it has served.
TEST_P(Steps, OfExtendedReliableConnections) {
  constexpr XrcDomainId kDomain(7);
  pair.qa = &pair.a->make_qp(*pair.ca, *pair.ca, {.type = QpType::kXrcSend});
  pair.qb =
      &pair.b->make_qp(*pair.cb, *pair.cb, {.type = QpType::kXrcReceive, .xrc_domain = kDomain});
  connect(*pair.a, *pair.qa, *pair.b, *pair.qb);
  std::vector<TestSrq*> queues;
  for (unsigned i = 0; i < kWarmUps + kRounds + 1; ++i)
    queues.push_back(&pair.b->make_srq(kDomain, *pair.cb));
  std::size_t next = 0;
  expect_none([&] {
    std::vector<Work> works(2, near_work(abi::Opcode::kSend));
    works[0].remote_srq = queues[next]->srq.number;
    works[1].remote_srq = queues[next + 1]->srq.number;
    queues[next]->ring.post(1, {far.all()});
    queues[++next]->ring.post(2, {far.all()});
    post(works);
    expect_completions(*pair.ca, 2);
    expect_completions(*pair.cb, 2);
  });
}

TEST_P(Steps, OfCompletionEvents) {
  pair.cb = &pair.b->make_cq(64, 5);
  pair.connect_pair();
  for (const std::uint32_t moderated : {0u, 3u}) {
    pair.b->adapter.engine.completion_queues().set_moderation(pair.cb->cq, moderated,
                                                              microseconds(20));
    expect_none([&] {
      for (const unsigned messages : {1u, 4u}) {  // told of after a while; after so many
        pair.cb->arm(abi::kArmAny);
        post_receives(messages);
        post(std::vector<Work>(messages, near_work(abi::Opcode::kSend)));
        expect_completions(*pair.ca, messages);
        expect_completions(*pair.cb, messages);
        steps(50);
      }
    });
  }
  EXPECT_EQ(pair.sink_of(*pair.b).completions.size(), 2 * 2 * (kWarmUps + kRounds));
}

/// Its process reads no events for a while.
TEST_P(Steps, OfEventsThatWait) {
  pair.cb = &pair.b->make_cq(64, 5);
  pair.connect_pair();
  expect_none([&] {
    pair.sink_of(*pair.b).full = true;
    pair.cb->arm(abi::kArmAny);
    post_receives(1);
    post({near_work(abi::Opcode::kSend)});
    expect_completions(*pair.ca, 1);
    expect_completions(*pair.cb, 1);
    pair.sink_of(*pair.b).full = false;
    for (int i = 0; i < 1000; ++i) step(microseconds(100));
  });
  EXPECT_EQ(pair.sink_of(*pair.b).completions.size(), kWarmUps + kRounds);
}

/// Those of objects, of a process that reads none: as many as are kept, from the first on.
TEST_P(Steps, OfAsyncEventsThatWait) {
  pair.sink_of(*pair.b).full = true;
  none_expected = true;
  allocations = 0;
  for (std::uint32_t i = 0; i <= AsyncEvents::kMostDeferred; ++i) {
    const Counting here;
    pair.b->adapter.engine.async_events().raise(*pair.b->session, i, EventType::kQpFatal);
  }
  none_expected = false;
  EXPECT_EQ(allocations, 0u);
}

TEST_P(Steps, OfRates) {
  pair.connect_pair();
  pair.a->adapter.engine.rates().set(pair.a->tenant.rate,
                                     {.messages_per_second = 20'000, .burst_messages = 2});
  expect_none([&] {
    post(std::vector<Work>(6, remote_work(abi::Opcode::kRdmaWrite)));
    expect_completions(*pair.ca, 6);
  });
  EXPECT_GT(pair.a->tenant.rate.held_ns.value(), 0u);
}
INSTANTIATE_TEST_SUITE_P(Ways, Steps, ::testing::Values(Way::kLocal, Way::kWire), way_name);

using StepsOfALink = Steps;

TEST_P(StepsOfALink, WithLoss) {
  pair.connect_pair();
  post({remote_work(abi::Opcode::kRdmaWrite)});
  expect_completions(*pair.ca, 1);  // the neighbour is known
  const std::vector<Work> works = every_request();
  expect_none([&] {
    for (const Work& work : works) {
      post_receives(1);
      pair.link->set_link(false);
      post({work});
      steps(3);
      pair.link->set_link(true);
      expect_completions(*pair.ca, 1);
    }
    while (pair.cb->poll()) {
    }
    // What was not needed goes to further messages.
    post(std::vector<Work>(kRequests - kReceives, near_work(abi::Opcode::kSend)));
    expect_completions(*pair.ca, kRequests - kReceives);
    expect_completions(*pair.cb, kRequests - kReceives);
  });
  EXPECT_GT(pair.a->tenant.counters.value(transport::Count::kRetransmittedPackets), 0u);
}
INSTANTIATE_TEST_SUITE_P(Ways, StepsOfALink, ::testing::Values(Way::kWire), way_name);

}  // namespace
}  // namespace softhca::engine
