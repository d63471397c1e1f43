#include "daemon/engine/engine_time.hpp"

#include <algorithm>

namespace softhca::engine {
namespace {

// The rate follows what it is now within some windows: other programs on the engine's core, and
// what the work consists of, change it.
constexpr double kWeightOfWindow = 1.0 / 16;
// A window far slower than those before is one in which the thread was without its processor.
constexpr double kSlowest = 4;

}  // namespace

void EngineTime::divide() {
  const auto busy = static_cast<double>(busy_.count());
  const std::uint64_t done = cpu_.done() - divided_;
  busy_ = Duration::zero();
  divided_ = cpu_.done();
  if (done == 0) return;
  const double rate = busy / static_cast<double>(done);
  rate_ += kWeightOfWindow * (std::min(rate, kSlowest * rate_) - rate_);
  for (Tenant* tenant : tenants_) {
    const std::uint64_t cost = tenant->counters.engine_cost.value();
    const auto share = static_cast<double>(cost - tenant->cost_divided);
    tenant->cost_divided = cost;
    tenant->counters.engine_ns.add(static_cast<std::uint64_t>(share * rate));
  }
}

}  // namespace softhca::engine
