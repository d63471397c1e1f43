// Two processes of two tenants, in one adapter or in two adapters joined by a link. The same tests
// must pass in both cases.
#pragma once

#include <gtest/gtest.h>

#include "tests/unit/engine/process.hpp"

namespace softhca::engine {

enum class Way { kLocal, kWire };

/// Tenants `a` (10.0.0.1) and `b` (10.0.0.2), a process of each with a completion queue.
class Pair : public World {
 public:
  explicit Pair(Way way, const TenantOptions& options = {},
                const EngineLimits& limits = Adapter::small_limits(),
                const port::MemoryPort::Options& wire = {}) {
    Adapter& first = add(limits);
    if (way == Way::kLocal) {
      first.add_tenant("a", address(1), {}, options);
      first.add_tenant("b", address(2), {}, options);
    } else {
      auto [left, right] = port::MemoryPort::make_pair(wire);
      link = left.get();
      first.add_port(std::move(left), address(1));
      first.add_tenant("a", address(1), PortId(0), options);
      add(limits).add_port(std::move(right), address(2));
      adapters[1]->add_tenant("b", address(2), PortId(0), options);
    }
    a = std::make_unique<Process>(first, *first.tenants[0]);
    b = std::make_unique<Process>(*adapters.back(), *adapters.back()->tenants.back());
    ca = &a->make_cq();
    cb = &b->make_cq();
  }
  ~Pair() {
    a->end();
    b->end();
    for (const auto& adapter : adapters) adapter->expect_idle();
  }

  /// Makes and connects a pair of queue pairs.
  void connect_pair(const Connection& connection = {}, const QpOptions& options = {}) {
    qa = &a->make_qp(*ca, *ca, options);
    QpOptions far = options;
    far.srq = srq;
    qb = &b->make_qp(*cb, *cb, far);
    connect(*a, *qa, *b, *qb, connection);
  }
  /// Polls the next completion of a process, waiting for it.
  std::optional<Completed> wait(TestCq& cq) {
    std::optional<Completed> got;
    run_until([&] { return (got = cq.poll()).has_value(); });
    return got;
  }
  abi::CompletionStatus wait_status(TestCq& cq) {
    const auto got = wait(cq);
    EXPECT_TRUE(got) << "no completion";
    return got ? got->status : static_cast<abi::CompletionStatus>(255);
  }
  /// Expects that commands hold nothing any more. Call it when all commands have completed.
  void expect_idle() {
    for (const auto& adapter : adapters) adapter->expect_idle();
    for (Process* process : {a.get(), b.get()})
      for (const auto& qp : process->qps) {
        EXPECT_EQ(qp->qp.sq.commands, 0u);
        EXPECT_EQ(qp->qp.sq.dedicated, 0u);
        EXPECT_EQ(qp->qp.sq.started, 0u);
        EXPECT_TRUE(qp->qp.sq.held.empty());
      }
  }
  RecordingSink& sink_of(Process& process) { return process.adapter.sink; }

  std::unique_ptr<Process> a, b;
  TestCq* ca = nullptr;
  TestCq* cb = nullptr;
  TestQp* qa = nullptr;
  TestQp* qb = nullptr;
  TestSrq* srq = nullptr;
  port::MemoryPort* link = nullptr;  ///< end of `a`
};

/// Tests that run both ways.
class BothWays : public ::testing::TestWithParam<Way> {
 protected:
  bool local() const { return GetParam() == Way::kLocal; }
};

inline std::string way_name(const ::testing::TestParamInfo<Way>& info) {
  return info.param == Way::kLocal ? "Local" : "Wire";
}

using Status = abi::CompletionStatus;

}  // namespace softhca::engine
