// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "bench/verbs/memcpy_rate.hpp"
#include "bench/verbs/sides.hpp"

namespace softhca::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kWarmUp = 50;
constexpr const char* kNames[] = {"send", "write", "read"};

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Returns the messages a second, with spec.depth in flight on each queue pair.
double message_rate(Endpoint& endpoint, const TestSpec& spec, double seconds) {
  const std::uint32_t batch = std::max(1u, std::min(16u, spec.depth / 4));
  const std::uint32_t batches = spec.depth / batch;
  std::uint64_t posted = 0, done = 0;
  const auto post = [&](std::uint32_t qp) {
    endpoint.post(qp, batch);
    posted += batch;
  };
  const auto start = Clock::now();
  for (std::uint32_t i = 0; i < batches; ++i)
    for (std::uint32_t qp = 0; qp < spec.queue_pairs; ++qp) post(qp);
  bool over = false;
  ibv_wc completions[32];
  while (done < posted) {
    const int n = endpoint.poll(completions, 32);
    if (n && !over) over = since(start) > seconds;
    for (int i = 0; i < n; ++i) {
      done += batch;
      if (!over) post(static_cast<std::uint32_t>(completions[i].wr_id));
    }
  }
  return static_cast<double>(done) / since(start);
}

void time_completions(Endpoint& endpoint, const TestSpec& spec, std::vector<double>& times) {
  ibv_wc completion;
  for (std::uint32_t i = 0; i < spec.iterations; ++i) {
    const auto start = Clock::now();
    endpoint.post(0, 1);
    while (endpoint.poll(&completion, 1) == 0) {
    }
    times.push_back(since(start));
  }
}

/// What an echo test measures.
struct Echoes {
  template <class Play>
  void measure(Play&& play) {
    const auto start = Clock::now();
    play();
    seconds = since(start);
    times.erase(times.begin(), times.begin() + kWarmUp);
    std::sort(times.begin(), times.end());
  }
  /// In microseconds.
  double at(std::size_t percent) const { return times[times.size() * percent / 100] * 1e6; }
  /// Messages a second.
  double rate() const { return static_cast<double>(times.size() + kWarmUp) / seconds; }

  std::vector<double> times;
  double seconds = 0;
};

class Client {
 public:
  Client(const Device& device, Peer& peer, const Plan& plan)
      : device_(device), peer_(peer), plan_(plan), mtu_(choose_mtu()) {}

  void run() {
    if (!plan_.json)
      std::printf("%s, path MTU %u, %u messages in flight per queue pair\n", device_.name().c_str(),
                  128u << mtu_, plan_.depth);
    for (unsigned turn = 0; turn < plan_.turns; ++turn) {
      if (plan_.rate) run_rates();
      if (plan_.latency) run_latencies(Measure::kLatency);
      if (plan_.completion) run_latencies(Measure::kCompletion);
      if (plan_.echo) run_echoes();
    }
    peer_.send(TestSpec{});
  }

 private:
  std::uint32_t choose_mtu() {
    const std::uint32_t most = std::min(device_.active_mtu(), peer_.receive<std::uint32_t>());
    std::uint32_t mtu = IBV_MTU_256;
    while (mtu < most && (plan_.mtu == 0 || 128u << (mtu + 1) <= plan_.mtu)) ++mtu;
    return mtu;
  }

  template <class Body>
  void with_endpoint(const TestSpec& spec, Body body) {
    peer_.send(spec);
    Endpoint endpoint(device_, spec, peer_);
    if (spec.operation == Operation::kSend &&
        (spec.measure == Measure::kLatency || spec.measure == Measure::kEcho))
      endpoint.post_receives(0, spec.depth);
    peer_.receive<char>();
    peer_.send('g');
    plan_.await_others();
    body(endpoint);
    peer_.send('d');
  }

  void run_rates() {
    if (!plan_.json)
      std::printf("%-6s %9s %4s %10s %9s %12s %7s\n", "rate", "bytes", "qps", "Mmsg/s", "GB/s",
                  "memcpy GB/s", "ratio");
    for (const Operation operation : plan_.operations)
      for (const std::uint64_t size : plan_.sizes)
        for (const std::uint32_t qps : plan_.queue_pairs) rate(operation, size, qps);
  }

  void rate(Operation operation, std::uint64_t size, std::uint32_t qps) {
    TestSpec spec{
        Measure::kRate, operation, static_cast<std::uint32_t>(size), qps, plan_.depth, 0, mtu_};
    // At most 64 MiB in flight on a queue pair, because more does not help.
    spec.depth =
        static_cast<std::uint32_t>(std::clamp<std::uint64_t>((64u << 20) / size, 4, plan_.depth));
    const double copy = memcpy_seconds(size, area_pairs(size, qps));
    double per_second = 0;
    with_endpoint(spec, [&](Endpoint& e) { per_second = message_rate(e, spec, plan_.seconds); });
    const double bytes = static_cast<double>(size);
    if (plan_.json)
      std::printf(R"({"measure":"rate","operation":"%s","bytes":%llu,"queue_pairs":%u,)"
                  R"("messages_per_second":%.1f,"memcpy_per_second":%.1f})"
                  "\n",
                  name(operation), static_cast<unsigned long long>(size), qps, per_second,
                  1 / copy);
    else
      std::printf("%-6s %9llu %4u %10.4f %9.3f %12.3f %7.3f\n", name(operation),
                  static_cast<unsigned long long>(size), qps, per_second / 1e6,
                  per_second * bytes / 1e9, bytes / copy / 1e9, per_second * copy);
    std::fflush(stdout);
  }

  void run_latencies(Measure measure) {
    if (!plan_.json)
      std::printf("%-6s %9s %4s %10s %9s %12s %7s\n",
                  measure == Measure::kLatency ? "latency" : "completion", "bytes", "", "p50 us",
                  "p99 us", "memcpy us", "ratio");
    for (const Operation operation : plan_.operations)
      for (const std::uint64_t size : plan_.sizes) latency(measure, operation, size);
  }

  std::uint32_t iterations_for(std::uint64_t size) const {
    if (plan_.iterations != 0) return plan_.iterations;
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>((256u << 20) / size, 50, 2000));
  }

  /// Measures one way for send and write (half a round trip); to completion for read, and on
  /// request.
  void latency(Measure measure, Operation operation, std::uint64_t size) {
    const bool to_completion = measure == Measure::kCompletion || operation == Operation::kRead;
    const TestSpec spec{measure, operation, static_cast<std::uint32_t>(size),
                        1,       4,         iterations_for(size) + kWarmUp,
                        mtu_};
    const double copy = memcpy_seconds(size, 1);
    std::vector<double> times;
    with_endpoint(spec, [&](Endpoint& endpoint) {
      if (to_completion)
        time_completions(endpoint, spec, times);
      else
        play_ping_pong(endpoint, spec, /*first=*/true, &times);
    });
    times.erase(times.begin(), times.begin() + kWarmUp);
    std::sort(times.begin(), times.end());
    const double scale = to_completion ? 1e6 : 0.5e6;
    const double p50 = times[times.size() / 2] * scale;
    const double p99 = times[times.size() * 99 / 100] * scale;
    if (plan_.json)
      std::printf(R"({"measure":"%s","operation":"%s","bytes":%llu,"p50_us":%.3f,"p99_us":%.3f})"
                  "\n",
                  measure == Measure::kLatency ? "latency" : "completion", name(operation),
                  static_cast<unsigned long long>(size), p50, p99);
    else
      std::printf("%-6s %9llu %4s %10.2f %9.2f %12.3f %7.1f\n", name(operation),
                  static_cast<unsigned long long>(size), "", p50, p99, copy * 1e6,
                  p50 / (copy * 1e6));
    std::fflush(stdout);
  }

  void run_echoes() {
    if (!plan_.json)
      std::printf("%-6s %9s %9s %10s %9s %12s %12s %7s\n", "echo", "bytes", "in flight", "p50 us",
                  "p99 us", "a second", "TCP p50 us", "ratio");
    for (const std::uint64_t size : plan_.sizes) echo(size);
  }

  /// Measures from a message to its echo, then the same over TCP.
  void echo(std::uint64_t size) {
    TestSpec spec{Measure::kEcho,
                  Operation::kSend,
                  static_cast<std::uint32_t>(size),
                  1,
                  plan_.depth,
                  iterations_for(size) + kWarmUp,
                  mtu_};
    Echoes ours, tcp;
    with_endpoint(spec, [&](Endpoint& endpoint) {
      ours.measure([&] { play_echo(endpoint, spec, /*first=*/true, &ours.times); });
    });
    spec.measure = Measure::kTcpEcho;
    peer_.send(spec);
    tcp.measure([&] { play_tcp_echo(peer_, spec, /*first=*/true, &tcp.times); });
    if (plan_.json)
      std::printf(R"({"measure":"echo","bytes":%llu,"in_flight":%u,"p50_us":%.3f,"p99_us":%.3f,)"
                  R"("messages_per_second":%.1f,"tcp_p50_us":%.3f,"tcp_p99_us":%.3f,)"
                  R"("tcp_messages_per_second":%.1f})"
                  "\n",
                  static_cast<unsigned long long>(size), spec.depth, ours.at(50), ours.at(99),
                  ours.rate(), tcp.at(50), tcp.at(99), tcp.rate());
    else
      std::printf("%-6s %9llu %9u %10.2f %9.2f %12.0f %12.2f %7.2f\n", "send",
                  static_cast<unsigned long long>(size), spec.depth, ours.at(50), ours.at(99),
                  ours.rate(), tcp.at(50), tcp.at(50) / ours.at(50));
    std::fflush(stdout);
  }

  static const char* name(Operation operation) {
    return kNames[static_cast<std::size_t>(operation)];
  }

  const Device& device_;
  Peer& peer_;
  const Plan& plan_;
  std::uint32_t mtu_;
};

}  // namespace

void play_ping_pong(Endpoint& endpoint, const TestSpec& spec, bool first,
                    std::vector<double>* times) {
  const bool writes = spec.operation == Operation::kWrite;
  volatile char* arrives = endpoint.receive_area(0) + spec.size - 1;
  volatile char* leaves = endpoint.send_area(0) + spec.size - 1;
  std::uint64_t sent = 0, completed = 0, received = 0;
  const auto poll = [&] {
    const Endpoint::Messages messages = endpoint.poll_messages();
    completed += messages.sent;
    received += messages.received;
  };
  const auto mark = [](std::uint32_t i) { return static_cast<char>(2 + i % 100); };
  const auto send = [&](std::uint32_t i) {
    while (sent - completed >= spec.depth) poll();
    *leaves = mark(i);
    endpoint.post(0, 1);
    ++sent;
  };
  const auto await = [&](std::uint32_t i) {
    if (writes)
      while (*arrives != mark(i)) poll();
    else
      while (received <= i) poll();
  };
  for (std::uint32_t i = 0; i < spec.iterations; ++i) {
    const auto start = Clock::now();
    if (first) send(i);
    await(i);
    if (!first) send(i);
    if (times) times->push_back(since(start));
  }
  while (completed < sent) poll();
}

void run_client(const Device& device, Peer& peer, const Plan& plan) {
  Client(device, peer, plan).run();
}

}  // namespace softhca::bench
