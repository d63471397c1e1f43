// One engine with tenants and, perhaps, a port, driven by hand in virtual time.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "daemon/engine/engine.hpp"
#include "daemon/port/memory_port.hpp"

namespace softhca::engine {

/// Records events. Refuses them while `full`, as for a process that reads no events.
class RecordingSink final : public EventSink {
 public:
  struct Async {
    int fd;
    std::uint64_t element;
    EventType type;
  };

  bool completion_event(int channel_fd, std::uint64_t user_handle) override {
    ++attempts;
    if (full) return false;
    completions.emplace_back(channel_fd, user_handle);
    return true;
  }
  bool async_event(int async_fd, std::uint64_t element, std::uint32_t type) override {
    ++attempts;
    if (full) return false;
    async.push_back({async_fd, element, static_cast<EventType>(type)});
    return true;
  }

  /// Returns how many events of `type` were reported for `element`.
  std::size_t count(EventType type, std::uint64_t element) const {
    std::size_t n = 0;
    for (const Async& event : async) n += event.type == type && event.element == element;
    return n;
  }

  bool full = false;
  std::size_t attempts = 0;
  std::vector<Async> async;
  std::vector<std::pair<int, std::uint64_t>> completions;
};

struct TenantOptions {
  std::uint32_t pcbs = 8;   ///< guaranteed
  bool shared = true;       ///< may draw on the shared rest
  std::uint32_t lanes = 1;  ///< TVLs of commands
  std::uint32_t kick_list = 64;
  std::uint32_t dedicated_kick_list = 64;
};

class Adapter {
 public:
  static EngineLimits small_limits() {
    return {.vcbs = 64,
            .pcbs = 64,
            .dedicated_pcbs = 64,
            .tenants = 4,
            .tvls = 16,
            .execution_credits = 64,
            .completion_credits = 256,
            .queue_pairs = 64,
            .memory_regions = 64,
            .memory_windows = 16,
            .kept_packets = 64};
  }

  explicit Adapter(const EngineLimits& limits = small_limits()) : engine(limits, sink) {}

  Tenant& add_tenant(const std::string& name, const Gid& gid, std::optional<PortId> port = {},
                     const TenantOptions& options = {});
  /// Adds a level with its own TVLs to the tenant.
  Level& add_level(Tenant& tenant, const std::string& name, const TenantOptions& options = {});
  /// `gid` is answered for on a /24 of its own.
  void add_port(std::unique_ptr<port::Port> port, const Gid& gid);

  /// Expects that no command, buffer or credit is in use. Buffers still collecting count as in use.
  void expect_idle();

  RecordingSink sink;
  Engine engine;
  std::vector<std::unique_ptr<Tenant>> tenants;
  VcbId next_vcb{0};
  std::uint32_t next_session = 1;
  std::uint32_t next_pd = 1;

 private:
  void add_lanes(const Tenant& tenant, QosClassId qos_class, const TenantOptions& options);
};

/// Adapters that share a clock.
class World {
 public:
  Adapter& add(const EngineLimits& limits = Adapter::small_limits()) {
    adapters.push_back(std::make_unique<Adapter>(limits));
    return *adapters.back();
  }

  /// Runs one poll step of each engine. Returns true if any had work.
  bool step(Duration tick = std::chrono::microseconds(1));
  void steps(unsigned n) {
    while (n-- > 0) step();
  }
  /// Steps for `duration`, and skips the time in which nothing is due.
  void run_for(Duration duration);
  /// Steps until `done` holds. Returns false if it does not hold after `limit`.
  template <class Done>
  bool run_until(Done&& done, Duration limit = std::chrono::seconds(10)) {
    const Time end = now + limit;
    while (now < end) {
      if (done()) return true;
      leap(end);
    }
    return done();
  }

  Time now{std::chrono::seconds(1)};
  std::vector<std::unique_ptr<Adapter>> adapters;

 private:
  void leap(Time end);
};

}  // namespace softhca::engine
