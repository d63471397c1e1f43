// SPDX-License-Identifier: Apache-2.0

// An engine in simulated time, with one port. Requests are made to it between two poll steps, as
// the control thread makes them.
#pragma once

#include <memory>
#include <type_traits>
#include <vector>

#include "daemon/engine/engine.hpp"
#include "daemon/engine/records/costs.hpp"
#include "daemon/port/memory_port.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/fuzz/requests/asked.hpp"

namespace softhca::fuzz {

/// Takes events, or refuses them like the sockets of programs that do not read.
class Sink final : public engine::EventSink {
 public:
  bool completion_event(int, std::uint64_t) override { return !full; }
  bool async_event(int, std::uint64_t, std::uint32_t) override { return !full; }

  bool full = false;
};

class Bench {
 public:
  /// Rows of tenants, and those of the daemon's own queue pairs behind them.
  static constexpr std::uint16_t kTenants = 4, kServices = 3;
  static constexpr std::uint32_t kPcbs = 24, kDedicated = 10, kPcbsOfService = 4;
  static constexpr std::uint32_t kTvls = 10, kExecution = 16, kCompletion = 32;
  /// One for each tenant, and one that is kept free. They overflow soon.
  static constexpr std::uint32_t kDoorbells = kTenants + kServices + 1;
  static constexpr std::uint32_t kMtu = 1500, kPathMtu = 1024;
  /// VCBs of a session that has any.
  static constexpr std::uint32_t kVcbs = 8;

  Bench();

  template <class Request>
  auto ask(Request&& request) {
    return serve(nullptr, request);
  }
  /// Makes a request for a process, at the cost of its tenant.
  template <class Request>
  auto ask_for(const engine::Session& session, Request&& request) {
    return serve(&session, request);
  }

  void poll(unsigned steps = 1);
  /// Polls while `time` passes, and skips the time in which nothing is due.
  void pass(Duration time);
  Time now() const { return now_; }

  /// Returns the numbers that a change of configuration may change.
  std::vector<std::uint64_t> allotted();
  /// Requires that the pools count as many things as their holders.
  void check() const;
  /// Requires that commands, sessions and memory hold nothing.
  void check_idle();
  /// Requires that only the daemon's own queue pairs still have rows in the tables.
  void check_empty(std::size_t services);

  Sink sink;
  engine::Engine engine;
  engine::TenantAllocations allocations{engine};
  engine::EngineView view = engine.view();
  std::unique_ptr<port::MemoryPort> far_end;

 private:
  static engine::EngineLimits limits();

  template <class Request>
  auto serve(const engine::Session* payer, Request& request) {
    asked<std::remove_cvref_t<Request>> = true;
    struct Step {
      ~Step() {
        if (payer != nullptr) cpu.charge(*payer, engine::kRequestCost);
        cpu.end_step();
      }
      engine::CpuScheduler& cpu;
      const engine::Session* payer;
    };
    engine.cpu().end_step();
    const Step step{engine.cpu(), payer};
    return request.run(engine);
  }

  Time now_{std::chrono::seconds(1)};
};

}  // namespace softhca::fuzz
