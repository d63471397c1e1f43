// The part of the method `qp.set` that is about the rate of a queue pair. It holds as long as the
// queue pair exists.
#include "daemon/control/admin/admin_view.hpp"
#include "daemon/resource/allocation.hpp"

namespace softhca::control {
namespace {

using engine::RateGate;
using resource::Allocation;

struct RateKey {
  const char* name;
  Allocation allocation;  ///< of a tenant, whose range it has
  std::uint64_t RateLimits::*member;
};
constexpr RateKey kRateKeys[] = {
    {"bytes_per_second", Allocation::kRateBytes, &RateLimits::bytes_per_second},
    {"burst_bytes", Allocation::kRateBurstBytes, &RateLimits::burst_bytes},
    {"messages_per_second", Allocation::kRateMessages, &RateLimits::messages_per_second},
    {"burst_messages", Allocation::kRateBurstMessages, &RateLimits::burst_messages},
};

}  // namespace

bool AdminView::names_rate(const Json& params) {
  return std::any_of(std::begin(kRateKeys), std::end(kRateKeys),
                     [&](const RateKey& key) { return params.contains(key.name); });
}

std::optional<RpcError> AdminView::check_rate(const Json& params) const {
  for (const RateKey& key : kRateKeys) {
    if (!params.contains(key.name) || params.at(key.name).is_null()) continue;
    const Json& value = params.at(key.name);
    const resource::Range range = resource::range_of(key.allocation, adapter_.config.pools);
    if (value.is_number_unsigned() && value.get<std::uint64_t>() >= range.least &&
        value.get<std::uint64_t>() <= range.most)
      continue;
    return invalid_params(std::string(key.name) + " is " + std::to_string(range.least) + " to " +
                          std::to_string(range.most) + ", or null: the default");
  }
  return std::nullopt;
}

void AdminView::set_rate(Qpn qpn, const Json& params) {
  auto made = std::make_unique<RateGate>();
  adapter_.worker.run([&](engine::Engine& engine) {
    engine::QueuePair* qp = engine.find_queue_pair(qpn);
    if (qp == nullptr) return;
    if (qp->sq.rate == nullptr) qp->sq.rate = std::move(made);
    RateLimits limits = qp->sq.rate->limits();
    for (const RateKey& key : kRateKeys)
      if (params.contains(key.name)) {
        const Json& value = params.at(key.name);
        limits.*key.member =
            value.is_null() ? RateLimits{}.*key.member : value.get<std::uint64_t>();
      }
    engine.rates().set(*qp->sq.rate, limits);
  });
}

void add_throttling(Json& out, const RateGate& gate) {
  out["throttled"] = gate.held.value() != 0;
  out["throttled_s"] = static_cast<double>(gate.held_ns.value()) * 1e-9;
}

Json to_json(const RateGate& gate) {
  Json out;
  add_throttling(out, gate);
  const RateLimits limits = gate.limits();
  for (const RateKey& key : kRateKeys) out[key.name] = limits.*key.member;
  return out;
}

}  // namespace softhca::control
