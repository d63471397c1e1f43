#include "daemon/engine/engine_time.hpp"

namespace softhca::engine {
namespace {

// Weight of one window, so that the rate follows within some of them: it changes with what the work
// consists of.
constexpr double kWeightOfWindow = 1.0 / 16;

}  // namespace

void EngineTime::divide() {
  const auto busy = static_cast<double>(busy_.count());
  const std::uint64_t done = cpu_.done() - divided_;
  busy_ = Duration::zero();
  divided_ = cpu_.done();
  if (done == 0) return;
  const double rate = busy / static_cast<double>(done);
  rate_ += kWeightOfWindow * (rate - rate_);
  scale_ = scale_of(rate_);
  for (Tenant* tenant : tenants_) {
    const std::uint64_t cost = tenant->counters.engine_cost.value();
    const auto share = static_cast<double>(cost - tenant->cost_divided);
    tenant->cost_divided = cost;
    tenant->counters.engine_ns.add(static_cast<std::uint64_t>(share * rate));
  }
}

}  // namespace softhca::engine
