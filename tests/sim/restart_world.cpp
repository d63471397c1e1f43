// SPDX-License-Identifier: Apache-2.0

#include "tests/sim/restart_world.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "daemon/base/endian.hpp"
#include "daemon/engine/requests/restore_requests.hpp"
#include "daemon/roce/wire/ip.hpp"

namespace softhca::sim {
namespace {

using engine::Adapter;
using engine::address;
using engine::Process;

engine::EngineLimits limits() {
  engine::EngineLimits limits = Adapter::small_limits();
  limits.qpn_seed = 7;
  return limits;
}

bool resolves_address(const port::Frame& frame) {
  const auto bytes = frame.bytes();
  return bytes.size() > 14 && load_be<std::uint16_t>(bytes.data() + 12) == wire::kEtherTypeArp;
}

/// The adapter's port; what is behind it outlives the adapter. Loses some of the frames, but
/// no ARP: a connection gives up before the second request.
class HeldPort final : public port::Port {
 public:
  HeldPort(port::Port& held, double loss, Random& random)
      : held_(held), loss_(loss), random_(random) {}

  std::size_t receive(std::span<port::Frame> out) override {
    const std::size_t count = held_.receive(out);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (!resolves_address(out[i]) && random_.chance(loss_))
        held_.release({&out[i], 1});
      else
        out[kept++] = out[i];
    }
    return kept;
  }
  void release(std::span<const port::Frame> frames) override { held_.release(frames); }
  port::Frame allocate() override { return held_.allocate(); }
  void transmit(const port::Frame& frame) override { held_.transmit(frame); }
  void flush() override { held_.flush(); }
  MacAddress mac() const override { return held_.mac(); }
  std::uint32_t mtu() const override { return held_.mtu(); }
  bool link_up() const override { return held_.link_up(); }
  port::PortCounters counters() const override { return held_.counters(); }

 private:
  port::Port& held_;
  const double loss_;
  Random& random_;
};

}  // namespace

RestartWorld::RestartWorld(const RestartOptions& options, Random& random)
    : options_(options), random_(random), hosts_(options.local ? 1 : 2) {
  if (!options.local) {
    auto [left, right] = port::MemoryPort::make_pair({});
    hosts_[0].port = std::move(left);
    hosts_[1].port = std::move(right);
  }
  for (unsigned i = 0; i < hosts(); ++i) {
    hosts_[i].memory = std::make_unique<engine::RingMemory>(
        engine::DurableState::bytes_for(engine::durable_sizes(limits())));
    start(hosts_[i], i);
  }
  a = std::make_unique<Process>(*hosts_.front().adapter, *hosts_.front().adapter->tenants.front());
  b = std::make_unique<Process>(*hosts_.back().adapter, *hosts_.back().adapter->tenants.back());
}

RestartWorld::~RestartWorld() {
  a->end();
  b->end();
}

void RestartWorld::start(Host& host, unsigned number) {
  host.adapter = std::make_unique<Adapter>(limits(), host.memory->pages());
  std::optional<PortId> port;
  if (host.port) {
    port = PortId(0);
    host.adapter->add_port(std::make_unique<HeldPort>(*host.port, options_.loss, random_),
                           address(number + 1));
  }
  host.adapter->add_tenant("first", address(number + 1), port);
  if (options_.local) host.adapter->add_tenant("second", address(2), port);
}

void RestartWorld::lose_from(unsigned host, bool all) {
  static_cast<port::MemoryPort&>(*hosts_[host].port).set_link(!all);
}

void RestartWorld::advance() {
  constexpr Duration kStep = std::chrono::microseconds(1), kLongest = std::chrono::milliseconds(1);
  Time next = now_ + (std::exchange(idle_, true) ? kLongest : kStep);
  for (const Host& host : hosts_) {
    const engine::Engine& engine = host.adapter->engine;
    next = std::min(next, engine.has_runnable() ? now_ + kStep : engine.next_deadline());
  }
  now_ = std::max(next, now_ + kStep);
}

void RestartWorld::step() {
  advance();
  for (unsigned host = 0; host < hosts(); ++host) poll(host);
}

void RestartWorld::restart(unsigned number) {
  engine::RetireEngine{}.run(hosts_[number].adapter->engine);
  take_over(number);
}

void RestartWorld::take_over(unsigned number, Subject culprit) {
  Host& host = hosts_[number];
  const auto sizes = engine::DurableState::check(host.memory->pages());
  ASSERT_TRUE(sizes) << sizes.error().message;
  ASSERT_EQ(*sizes, engine::durable_sizes(limits()));
  host.former.push_back(std::move(host.adapter));
  start(host, number);
  Adapter& next = *host.adapter;
  next.engine.clock().now = now_;
  EXPECT_TRUE(next.engine.durable().is_restoring);
  for (std::unique_ptr<Process>* process : {&a, &b}) {
    if (&(*process)->adapter != host.former.back().get()) continue;
    const std::size_t tenant = process == &b ? next.tenants.size() - 1 : 0;
    *process = std::make_unique<Process>(std::move(**process), next, *next.tenants[tenant]);
  }
  engine::EndRestoring{culprit}.run(next.engine);
  // The programs read their events where they did.
  for (const auto& event : host.former.back()->sink.async) next.sink.async.push_back(event);
  for (const auto& event : host.former.back()->sink.completions)
    next.sink.completions.push_back(event);
}

void RestartWorld::watch(StoreTrap& trap, unsigned number) {
  trap.watch(state_of(number));
  for (Process* process : {a.get(), b.get()})
    if (&process->adapter == hosts_[number].adapter.get())
      process->for_each_ring([&](std::span<std::byte> pages) { trap.watch(pages); });
}

}  // namespace softhca::sim
