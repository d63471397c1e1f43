// SPDX-License-Identifier: Apache-2.0

#include "tests/sim/restart_world.hpp"

#include <sys/mman.h>

#include <array>
#include <new>
#include <string>

#include "daemon/engine/requests/restore_requests.hpp"

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

/// The adapter's port; what is behind it outlives the adapter. Loses some of the frames.
class HeldPort final : public port::Port {
 public:
  HeldPort(port::Port& held, double loss, Random& random)
      : held_(held), loss_(loss), random_(random) {}

  std::size_t receive(std::span<port::Frame> out) override {
    const std::size_t count = held_.receive(out);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (random_.chance(loss_))
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

KeptMemory::KeptMemory(std::size_t bytes) {
  void* const base =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) throw std::bad_alloc();
  bytes_ = {static_cast<std::byte*>(base), bytes};
}

KeptMemory::~KeptMemory() { ::munmap(bytes_.data(), bytes_.size()); }

RestartWorld::RestartWorld(const RestartOptions& options, Random& random)
    : options_(options), random_(random), hosts_(options.local ? 1 : 2) {
  if (!options.local) {
    auto [left, right] = port::MemoryPort::make_pair({});
    hosts_[0].port = std::move(left);
    hosts_[1].port = std::move(right);
  }
  for (unsigned i = 0; i < hosts(); ++i) {
    hosts_[i].memory = std::make_unique<KeptMemory>(
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
  host.adapter = std::make_unique<Adapter>(limits(), host.memory->bytes());
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

void RestartWorld::step() {
  now_ += std::chrono::microseconds(1);
  for (Host& host : hosts_) host.adapter->engine.poll(now_);
}

void RestartWorld::restart(unsigned number) {
  Host& host = hosts_[number];
  engine::RetireEngine{}.run(host.adapter->engine);
  const auto sizes = engine::DurableState::check(host.memory->bytes());
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
  engine::EndRestoring{}.run(next.engine);
  // The programs read their events where they did.
  for (const auto& event : host.former.back()->sink.async) next.sink.async.push_back(event);
  for (const auto& event : host.former.back()->sink.completions)
    next.sink.completions.push_back(event);
}

}  // namespace softhca::sim
