// SPDX-License-Identifier: Apache-2.0

// Random clients, datagrams, returns and reloads, checked against a simple model of the buffers
// that each client holds. One quiet client uses only the buffers that it asked for. It never loses
// a datagram, whatever the others do.
#include <random>
#include <set>

#include "tests/unit/qos/gsa/pool_fixture.hpp"

namespace softhca::management::gsa {
namespace {

constexpr std::uint64_t kQuiet = 100;
constexpr std::uint32_t kQuietBuffers = 12;
constexpr std::uint64_t kKeys = 8;
constexpr std::uint32_t kBuffers = 128;

class Model {
 public:
  /// Without parts of sources the quiet client may take its share from any host at any time.
  Model(std::uint32_t seed, const Parameters& parameters)
      : random_(seed),
        checks_quiet_(parameters.sources.part == 1 && parameters.sources.new_part == 1),
        parameters_(parameters),
        fixture_(parameters, {.buffers = 256, .clients = 6, .sources = 300, .seed = {seed, 7}}) {
    fixture_.join(kQuiet, kQuietBuffers);
  }

  void step() {
    fixture_.now += Duration(random_() % 3'000'000);
    fixture_.pool.watch_traffic(fixture_.now);
    switch (random_() % 24) {
      case 0:
        return join();
      case 1:
        return leave();
      case 2:
        return change();
      case 3:
        return reload();
      case 4:
      case 5:
        return give_back(random_() % 20);
      case 6:
      case 7:
      case 8:
        return checks_quiet_ ? quiet() : datagram();
      case 9:
        return flood();
      default:
        return datagram();
    }
  }

  void check() {
    const PoolCounters& counters = fixture_.pool.counters();
    ASSERT_EQ(counters.in_use.value(), used_.size());
    ASSERT_LE(counters.in_use.value() + counters.posted.value(), kBuffers);
    std::uint32_t shares = 0;
    for (const ClientView& client : fixture_.pool.clients()) {
      ASSERT_EQ(client.counters.held.value(), held_[client.id.generation << 8 | client.id.index]);
      ASSERT_GE(client.counters.share.value(), client.counters.asked.value());
      shares += client.counters.share.value();
    }
    ASSERT_LE(shares, kBuffers);
    ASSERT_GE(counters.in_use.value() + counters.posted.value(), shares) << "E1";
    if (used_.size() < kBuffers && counters.posted.value() < fixture_.pool.low_threshold()) {
      ASSERT_EQ(used_.size() + counters.posted.value(), kBuffers) << "E3: more would be posted";
    }
  }

  void drain() {
    while (!used_.empty()) give_back(used_.size());
    fixture_.give_back(kQuiet);
    std::uint32_t shares = 0;
    for (const ClientView& client : fixture_.pool.clients())
      shares += client.counters.share.value();
    EXPECT_LE(fixture_.posted(), std::max(shares, fixture_.pool.high_threshold()));
    // Nothing was lost: a lone client can have every buffer.
    for (std::uint64_t key = 0; key < kKeys; ++key)
      if (const auto id = fixture_.find(key)) fixture_.pool.deregister_client(*id);
    fixture_.pool.deregister_client(*fixture_.find(kQuiet));
    Parameters last = unlimited(kBuffers);
    last.sources.part = last.sources.new_part = 1;
    ASSERT_TRUE(fixture_.pool.set_parameters(last, fixture_.now));
    fixture_.join(1, kBuffers);
    EXPECT_EQ(fixture_.flood(1, 1, 2 * kBuffers), kBuffers);
    fixture_.give_back(1);
    ASSERT_TRUE(fixture_.pool.set_buffers(*fixture_.find(1), 2));
    EXPECT_EQ(fixture_.flood(1, 2, 2 * kBuffers), 2 + (kBuffers - 2) / 2)
        << "half of the spare ones";
  }

 private:
  struct Held {
    std::uint32_t buffer;
    std::uint32_t client;
  };

  std::uint64_t key() { return random_() % kKeys; }
  std::optional<ClientId> client() { return fixture_.find(key()); }
  std::optional<std::uint32_t> number() {
    return random_() % 4 == 0 ? std::nullopt : std::optional<std::uint32_t>(random_() % 60);
  }

  void join() {
    const Expected<ClientId> id =
        fixture_.pool.register_client(ClientKey(key()), "client", number());
    if (id) held_[id->generation << 8 | id->index] = 0;
  }
  void leave() {
    if (const auto id = client()) fixture_.pool.deregister_client(*id);
  }
  void change() {
    if (const auto id = client()) (void)!fixture_.pool.set_buffers(*id, number());
  }
  void reload() {
    Parameters p = parameters_;
    p.buffers_per_client = 1 + random_() % 20;
    if (random_() % 2 == 0) p.low_threshold = random_() % 30;
    if (random_() % 2 == 0) p.high_threshold = 30 + random_() % 30;
    p.adjustment.raise_after = random_() % 4;
    (void)!fixture_.pool.set_parameters(p, fixture_.now);
  }
  void take(std::uint64_t to, std::uint32_t from) {
    const Admission admission = fixture_.pool.admit(ClientKey(to), host(from), fixture_.now);
    if (!admission) return;
    ASSERT_TRUE(used_.insert(admission.buffer).second) << "given twice";
    const std::uint32_t name = admission.client.generation << 8 | admission.client.index;
    order_.push_back({admission.buffer, name});
    ++held_[name];
  }
  void datagram() { take(key(), random_() % 20); }
  void flood() {
    const std::uint64_t to = key();
    const std::uint32_t from = random_() % 20;
    for (int i = 0; i < 100; ++i) take(to, from);
  }
  void give_back(std::size_t n) {
    for (; n != 0 && !order_.empty(); --n) {
      std::swap(order_[random_() % order_.size()], order_.back());
      ASSERT_TRUE(fixture_.pool.release(order_.back().buffer));
      used_.erase(order_.back().buffer);
      --held_[order_.back().client];
      order_.pop_back();
    }
  }
  /// Fills up what it asked for, from one host or some, and later gives it back.
  void quiet() {
    const bool one_host = random_() % 2 == 0;
    while (fixture_.counters(kQuiet).held.value() < kQuietBuffers) {
      const auto before = order_.size();
      take(kQuiet, one_host ? 1 : random_() % 5);
      ASSERT_EQ(order_.size(), before + 1) << "lost one though it is within what it asked for";
    }
  }

  std::mt19937 random_;
  bool checks_quiet_;
  Parameters parameters_;
  PoolFixture fixture_;
  std::set<std::uint32_t> used_;
  std::vector<Held> order_;
  std::map<std::uint32_t, std::uint32_t> held_;
};

void run(const Parameters& parameters) {
  for (std::uint32_t seed = 1; seed <= 60 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Model model(seed, parameters);
    for (int i = 0; i < 3000; ++i) {
      model.step();
      model.check();
      if (testing::Test::HasFatalFailure()) return;
    }
    model.drain();
  }
}

TEST(PoolModel, TheQuietClientNeverLosesADatagram) {
  Parameters parameters = unlimited(kBuffers);
  parameters.sources.part = parameters.sources.new_part = 1;
  run(parameters);
}

TEST(PoolModel, SharesFollowTrafficQuickly) {
  Parameters parameters = unlimited(kBuffers);
  parameters.sources.part = parameters.sources.new_part = 1;
  parameters.adjustment.window = milliseconds(10);
  parameters.adjustment.lower_after = 2;
  run(parameters);
}

TEST(PoolModel, SourcesAreHeldToTheirParts) {
  Parameters parameters;
  parameters.buffers = kBuffers;
  parameters.sources.rate = {.per_second = 300, .burst = 20};
  parameters.sources.new_rate = {.per_second = 1000, .burst = 20};
  parameters.sources.probation = milliseconds(200);
  run(parameters);
}

}  // namespace
}  // namespace softhca::management::gsa
