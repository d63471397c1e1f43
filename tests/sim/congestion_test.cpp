// Whole engines behind a switch: some of them send to another through one port of 1 Gbit/s, which
// marks packets when its queue grows, or only drops them when it is full. The port must be busy,
// and all must get the same, whoever came first; where it marks, the queue must stay short. In
// virtual time, and from a seed, so that the figures are the same each time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <numeric>

#include "daemon/base/endian.hpp"
#include "daemon/port/memory_port.hpp"
#include "daemon/wire/frame.hpp"
#include "tests/sim/random.hpp"
#include "tests/unit/engine/process.hpp"

namespace softhca::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr double kPortBits = 1e9;
constexpr std::size_t kMarkFrom = 20'000;   ///< bytes in the queue at which marking begins
constexpr std::size_t kMarkAll = 100'000;   ///< and above which every packet is marked
constexpr double kMostChance = 0.1;         ///< of a mark, right below
constexpr std::size_t kQueueEnd = 1 << 20;  ///< what comes then is lost

/// The switch: port i leads to host 10.0.0.(i + 1). Only the way to the receiver, the last host, is
/// slow. A packet for which there is no room behind `queue_end` bytes is lost.
class Switch {
 public:
  Switch(unsigned hosts, std::size_t queue_end) : ports_(hosts), queue_end_(queue_end) {}

  std::unique_ptr<port::Port> connect(unsigned host) {
    const auto mac = [](unsigned last) {
      return MacAddress{{2, 0, 0, 0, 1, static_cast<std::uint8_t>(last)}};
    };
    auto [theirs, ours] = port::MemoryPort::make_pair(
        {.buffers = 4096, .mtu = 4500, .mac = {mac(host + 1), mac(host + 101)}});
    ports_[host] = std::move(ours);
    return std::move(theirs);
  }

  void run(Time now) {
    for (unsigned from = 0; from < ports_.size(); ++from) {
      std::array<port::Frame, 64> frames;
      const std::size_t count = ports_[from]->receive(frames);
      for (std::size_t i = 0; i < count; ++i) forward(from, frames[i].bytes());
      if (count != 0) ports_[from]->release({frames.data(), count});
    }
    if (idle_until_ < now - microseconds(1)) idle_until_ = now - microseconds(1);
    while (!queue_.empty() && idle_until_ <= now) {
      idle_until_ += Duration(
          static_cast<std::int64_t>(static_cast<double>(queue_.front().size()) * 8e9 / kPortBits));
      waiting_ -= queue_.front().size();
      send(receiver(), queue_.front());
      queue_.pop_front();
    }
    ++samples;
    total_waiting += waiting_;
  }

  std::uint64_t samples = 0, total_waiting = 0, marked = 0, sent = 0, lost = 0;

 private:
  using Bytes = std::vector<std::byte>;

  unsigned receiver() const { return static_cast<unsigned>(ports_.size()) - 1; }
  void forward(unsigned from, std::span<const std::byte> bytes) {
    wire::ParsedFrame frame;
    if (wire::is_foreign(wire::parse_frame(bytes, frame))) {  // a question for a link address
      for (unsigned to = 0; to < ports_.size(); ++to)
        if (to != from) send(to, {bytes.begin(), bytes.end()});
      return;
    }
    const unsigned to = frame.destination.bytes[15] - 1u;
    ASSERT_LT(to, ports_.size());
    Bytes copy(bytes.begin(), bytes.end());
    if (to != receiver()) return send(to, copy);
    ++sent;
    if (waiting_ + copy.size() > queue_end_) {
      ++lost;
      return;
    }
    if ((frame.traffic_class & wire::kEcnMask) != 0 && random_.chance(chance_of_mark())) mark(copy);
    waiting_ += copy.size();
    queue_.push_back(std::move(copy));
  }
  double chance_of_mark() const {
    if (waiting_ <= kMarkFrom) return 0;
    if (waiting_ > kMarkAll) return 1;
    return kMostChance * static_cast<double>(waiting_ - kMarkFrom) / (kMarkAll - kMarkFrom);
  }
  void mark(Bytes& frame) {
    ++marked;
    std::byte* const ip = &frame[wire::kEthernetLength];
    ip[1] |= std::byte{wire::kEcnCongested};
    store_be(ip + 10, std::uint16_t{0});
    const auto sum = static_cast<std::uint16_t>(
        ~wire::fold_checksum(wire::add_checksum({ip, wire::kIpv4Length}, 0)));
    std::memcpy(ip + 10, &sum, sizeof sum);
  }
  void send(unsigned to, const Bytes& bytes) {
    port::Frame frame = ports_[to]->allocate();
    ASSERT_TRUE(frame);
    std::copy(bytes.begin(), bytes.end(), frame.data);
    frame.length = static_cast<std::uint32_t>(bytes.size());
    ports_[to]->transmit(frame);
    ports_[to]->flush();
  }

  std::vector<std::unique_ptr<port::Port>> ports_;
  std::size_t queue_end_;
  std::deque<Bytes> queue_;
  std::size_t waiting_ = 0;
  Time idle_until_{};
  Random random_{1};
};

/// A sender that always has writes under way.
struct Flow {
  engine::Process* process = nullptr;
  engine::TestCq* cq = nullptr;
  engine::TestQp* qp = nullptr;
  engine::Buffer* source = nullptr;
  engine::Buffer* target = nullptr;
  unsigned posted = 0;
  std::uint64_t bytes = 0;  ///< completed

  static constexpr std::size_t kMessage = 16 << 10;

  void run() {
    while (const auto done = cq->poll()) {
      ASSERT_EQ(done->status, abi::CompletionStatus::kSuccess);
      --posted;
      bytes += kMessage;
    }
    for (; posted < 8; ++posted)
      process->post(*qp, {.opcode = abi::Opcode::kRdmaWrite,
                          .sge = {source->all()},
                          .remote_addr = target->addr(),
                          .rkey = target->key});
  }
};

struct Outcome {
  std::vector<double> flows;  ///< Mbit/s
  double queue = 0;           ///< bytes, mean
  double loss = 0;            ///< part of what was sent to the port while it was measured
  std::uint64_t marked = 0, lost = 0;

  double sum() const { return std::accumulate(flows.begin(), flows.end(), 0.0); }
  double fairness() const {  // Jain's index
    const double squares = std::inner_product(flows.begin(), flows.end(), flows.begin(), 0.0);
    return sum() * sum() / (static_cast<double>(flows.size()) * squares);
  }
};

struct Load {
  unsigned flows = 2;
  std::size_t queue_end = kQueueEnd;
  Duration measured = milliseconds(200);
};

class Congestion : public testing::Test {
 protected:
  /// The others begin 50 ms after the first, 50 us apart; what is measured begins after 300 ms.
  Outcome measure(const CongestionParameters& parameters, const Load& load = {}) {
    engine::World world;
    const unsigned receiving = load.flows;
    Switch between(receiving + 1, load.queue_end);
    std::vector<std::unique_ptr<engine::Process>> processes;
    for (unsigned host = 0; host <= receiving; ++host) {
      engine::Adapter& adapter = world.add();
      adapter.engine.set_congestion(parameters);
      adapter.add_port(between.connect(host), engine::address(host + 1));
      adapter.add_tenant("t", engine::address(host + 1), PortId(0));
      processes.push_back(std::make_unique<engine::Process>(adapter, *adapter.tenants[0]));
    }
    std::vector<Flow> flows(load.flows);
    for (unsigned i = 0; i < load.flows; ++i) {
      Flow& flow = flows[i];
      engine::Process& receiver = *processes[receiving];
      flow.process = processes[i].get();
      flow.cq = &flow.process->make_cq();
      flow.qp = &flow.process->make_qp(*flow.cq, *flow.cq);
      engine::TestCq& unused = receiver.make_cq();
      connect(*flow.process, *flow.qp, receiver, receiver.make_qp(unused, unused), {.timeout = 14});
      flow.source = &flow.process->make_buffer(Flow::kMessage);
      flow.target = &receiver.make_buffer(Flow::kMessage);
    }
    const Time start = world.now;
    const auto run_until = [&](Duration end) {
      while (world.now < start + end) {
        flows[0].run();
        for (unsigned i = 1; i < load.flows; ++i)
          if (world.now >= start + milliseconds(50) + i * microseconds(50)) flows[i].run();
        world.step();
        between.run(world.now);
      }
    };
    run_until(milliseconds(300));
    std::vector<std::uint64_t> before;
    for (const Flow& flow : flows) before.push_back(flow.bytes);
    const std::uint64_t sent = between.sent, lost = between.lost;
    between.samples = between.total_waiting = 0;
    run_until(milliseconds(300) + load.measured);
    Outcome out;
    for (unsigned i = 0; i < load.flows; ++i)
      out.flows.push_back(static_cast<double>(flows[i].bytes - before[i]) * 8e3 /
                          static_cast<double>(load.measured.count()));
    out.loss = static_cast<double>(between.lost - lost) / static_cast<double>(between.sent - sent);
    out.queue = static_cast<double>(between.total_waiting) / static_cast<double>(between.samples);
    out.marked = between.marked;
    out.lost = between.lost;
    for (const auto& process : processes) process->end();
    for (const double flow : out.flows) std::printf("%.0f ", flow);
    std::printf("Mbit/s: %.0f, Jain %.3f; mean queue %.0f bytes, %llu marked, %llu lost, %.3f\n",
                out.sum(), out.fairness(), out.queue, static_cast<unsigned long long>(out.marked),
                static_cast<unsigned long long>(out.lost), out.loss);
    return out;
  }
};

TEST_F(Congestion, TwoFlowsShareAPortFairlyWithAShortQueue) {
  CongestionParameters parameters;
  parameters.mode = CongestionMode::kOn;
  const Outcome out = measure(parameters);
  EXPECT_GE(out.fairness(), 0.95);
  EXPECT_GE(out.sum(), 0.8 * kPortBits / 1e6);
  EXPECT_LE(out.queue, 0.5 * kMarkAll);
  EXPECT_EQ(out.lost, 0u);
  EXPECT_GT(out.marked, 0u);
}

/// The steps of hardware: small and many. They overshoot more, so that the queue is longer and now
/// and then empty.
TEST_F(Congestion, WithTheStepsOfHardware) {
  CongestionParameters parameters;
  parameters.mode = CongestionMode::kOn;
  parameters.clamp_tgt_rate = false;
  parameters.rpg_threshold = 1;
  parameters.rpg_byte_reset = 32767;
  const Outcome out = measure(parameters);
  EXPECT_GE(out.fairness(), 0.9);
  EXPECT_GE(out.sum(), 0.6 * kPortBits / 1e6);
  EXPECT_LE(out.queue, 1.5 * kMarkAll);
  EXPECT_EQ(out.lost, 0u);
}

TEST_F(Congestion, WithoutItTheQueueIsAsLongAsTheWindows) {
  CongestionParameters parameters;
  parameters.mode = CongestionMode::kNotify;
  const Outcome out = measure(parameters);
  EXPECT_EQ(out.marked, 0u) << "who does not react must not say that it is ECN-capable";
  EXPECT_GE(out.queue, 1.0 * kMarkAll);
}

// --- where nobody marks

class WithoutMarks : public Congestion, public testing::WithParamInterface<unsigned> {};

/// The queue holds 16 packets.
TEST_P(WithoutMarks, LossAloneSharesThePort) {
  const Outcome out =
      measure({}, {.flows = GetParam(), .queue_end = 64 << 10, .measured = milliseconds(700)});
  EXPECT_GE(out.fairness(), 0.95);
  EXPECT_GE(out.sum(), 0.8 * kPortBits / 1e6);
  EXPECT_LE(out.loss, 0.1);
  EXPECT_GT(out.lost, 0u);
}
INSTANTIATE_TEST_SUITE_P(Flows, WithoutMarks, testing::Values(2, 4, 8, 16));

}  // namespace
}  // namespace softhca::sim
