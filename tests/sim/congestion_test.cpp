// Whole engines behind a switch that marks: two of them send to a third through one port of
// 1 Gbit/s. The queue must stay short, the port busy, and both must get the same, whoever came
// first. In virtual time, and from a seed, so that the figures are the same each time.
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
constexpr unsigned kHosts = 3;
constexpr unsigned kReceiver = 2;

/// The switch: port i leads to host 10.0.0.(i + 1). Only the way to the receiver is slow.
class Switch {
 public:
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
    for (unsigned from = 0; from < kHosts; ++from) {
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
      send(kReceiver, queue_.front());
      queue_.pop_front();
    }
    ++samples;
    total_waiting += waiting_;
  }

  std::uint64_t samples = 0, total_waiting = 0, marked = 0, lost = 0;

 private:
  using Bytes = std::vector<std::byte>;

  void forward(unsigned from, std::span<const std::byte> bytes) {
    wire::ParsedFrame frame;
    if (wire::is_foreign(wire::parse_frame(bytes, frame))) {  // a question for a link address
      for (unsigned to = 0; to < kHosts; ++to)
        if (to != from) send(to, {bytes.begin(), bytes.end()});
      return;
    }
    const unsigned to = frame.destination.bytes[15] - 1u;
    ASSERT_LT(to, kHosts);
    Bytes copy(bytes.begin(), bytes.end());
    if (to != kReceiver) return send(to, copy);
    if (waiting_ + copy.size() > kQueueEnd) {
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

  std::array<std::unique_ptr<port::Port>, kHosts> ports_;
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
  double first = 0, second = 0;  ///< Mbit/s of the flows
  double queue = 0;              ///< bytes, mean
  std::uint64_t marked = 0, lost = 0;

  double sum() const { return first + second; }
  double fairness() const {  // Jain's index
    return sum() * sum() / (2 * (first * first + second * second));
  }
};

class Congestion : public testing::Test {
 protected:
  /// The second flow begins 50 ms after the first; measured are the last 200 of 500 ms.
  Outcome measure(const CongestionParameters& parameters) {
    engine::World world;
    Switch between;
    std::vector<std::unique_ptr<engine::Process>> processes;
    for (unsigned host = 0; host < kHosts; ++host) {
      engine::Adapter& adapter = world.add();
      adapter.engine.set_congestion(parameters);
      adapter.add_port(between.connect(host), engine::address(host + 1));
      adapter.add_tenant("t", engine::address(host + 1), PortId(0));
      processes.push_back(std::make_unique<engine::Process>(adapter, *adapter.tenants[0]));
    }
    std::array<Flow, 2> flows;
    for (unsigned i = 0; i < 2; ++i) {
      Flow& flow = flows[i];
      engine::Process& receiver = *processes[kReceiver];
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
        if (world.now >= start + milliseconds(50)) flows[1].run();
        world.step();
        between.run(world.now);
      }
    };
    run_until(milliseconds(300));
    const std::uint64_t before[] = {flows[0].bytes, flows[1].bytes};
    between.samples = between.total_waiting = 0;
    run_until(milliseconds(500));
    Outcome out;
    out.first = static_cast<double>(flows[0].bytes - before[0]) * 8 / 200e3;
    out.second = static_cast<double>(flows[1].bytes - before[1]) * 8 / 200e3;
    out.queue = static_cast<double>(between.total_waiting) / static_cast<double>(between.samples);
    out.marked = between.marked;
    out.lost = between.lost;
    for (const auto& process : processes) process->end();
    std::printf("flows %.0f and %.0f Mbit/s, mean queue %.0f bytes, %llu marked, %llu lost\n",
                out.first, out.second, out.queue, static_cast<unsigned long long>(out.marked),
                static_cast<unsigned long long>(out.lost));
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

}  // namespace
}  // namespace softhca::sim
