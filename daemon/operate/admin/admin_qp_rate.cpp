// SPDX-License-Identifier: Apache-2.0

// The part of the method `qp.set` that sets the rates of a queue pair. They hold as long as the
// queue pair exists.
#include "daemon/configuration/live_settings.hpp"
#include "daemon/device/session/device_session.hpp"
#include "daemon/engine/requests/showing.hpp"
#include "daemon/operate/admin/admin_view.hpp"
#include "daemon/qos/schedule/minimum_rates.hpp"

namespace softhca::control {
namespace {

using configuration::LiveSetting;
using engine::QpRates;
using engine::RateGate;

struct RateKey {
  const char* name;
  std::uint64_t RateLimits::*member;
};
constexpr RateKey kRateKeys[] = {{"bytes_per_second", &RateLimits::bytes_per_second},
                                 {"burst_bytes", &RateLimits::burst_bytes},
                                 {"messages_per_second", &RateLimits::messages_per_second},
                                 {"burst_messages", &RateLimits::burst_messages}};

/// One of the rates of a queue pair.
struct RateTable {
  const char* prefix;  ///< prefix of its keys
  /// The setting of a tenant with the range of the first key; those of the other keys follow it.
  LiveSetting first;
};
constexpr const char* kMinimum = "min_bytes_per_second";
constexpr RateTable kSent{"", LiveSetting::kRateBytes};
constexpr RateTable kInbound{"inbound_rate.", LiveSetting::kInboundBytes};
constexpr RateTable kServed{"served_rate.", LiveSetting::kServedBytes};

std::string name_of(const RateTable& table, const RateKey& key) {
  return std::string(table.prefix) + key.name;
}

/// Calls f(table, key, setting) for each key. The setting has the range of the key.
template <class F>
void for_each_key(F&& f) {
  for (const RateTable& table : {kSent, kInbound, kServed}) {
    auto setting = static_cast<unsigned>(table.first);
    for (const RateKey& key : kRateKeys) f(table, key, static_cast<LiveSetting>(setting++));
  }
}

void add_held(Json& out, bool held, std::uint64_t held_ns) {
  out["throttled"] = held;
  out["throttled_s"] = static_cast<double>(held_ns) * 1e-9;
}

/// Returns the limits with the changes of `params`.
RateLimits changed(RateLimits limits, const RateTable& table, const Json& params) {
  for (const RateKey& key : kRateKeys) {
    const std::string name = name_of(table, key);
    if (!params.contains(name)) continue;
    const Json& value = params.at(name);
    limits.*key.member = value.is_null() ? RateLimits{}.*key.member : value.get<std::uint64_t>();
  }
  return limits;
}

}  // namespace

bool AdminView::names_rate(const Json& params) {
  bool named = params.contains(kMinimum);
  for_each_key([&](const RateTable& table, const RateKey& key, LiveSetting) {
    named |= params.contains(name_of(table, key));
  });
  return named;
}

std::optional<RpcError> AdminView::check_rate(const Json& params) const {
  std::optional<RpcError> wrong;
  const auto check = [&](const std::string& name, LiveSetting setting) {
    if (!params.contains(name) || params.at(name).is_null()) return;
    const Json& value = params.at(name);
    const configuration::Range range = configuration::range_of(setting, adapter_.config.pools);
    if (value.is_number_unsigned() && value.get<std::uint64_t>() >= range.least &&
        value.get<std::uint64_t>() <= range.most)
      return;
    wrong = invalid_params(name + " must be " + std::to_string(range.least) + " to " +
                           std::to_string(range.most) + ", or null for the default");
  };
  for_each_key([&](const RateTable& table, const RateKey& key, LiveSetting setting) {
    check(name_of(table, key), setting);
  });
  check(kMinimum, LiveSetting::kRateMinBytes);
  return wrong;
}

/// Checks the minimum rate. The minimums of queue pairs are parts of the minimum of their level or
/// tenant.
std::optional<RpcError> AdminView::check_minimum(const engine::QueuePair& qp,
                                                 const Json& params) const {
  if (!params.contains(kMinimum) || params.at(kMinimum).is_null()) return std::nullopt;
  const auto asked = params.at(kMinimum).get<std::uint64_t>();
  const schedule::MinimumRates& minimums = adapter_.engine.minimums;
  const engine::Level* level = engine::level_of(qp);
  const std::uint64_t all =
      (level != nullptr ? minimums.of(level->qos_class) : minimums.of(qp.tenant->id))
          .rate()
          .per_second;
  std::uint64_t others = 0;
  for (const DeviceSession* session : sessions_())
    session->queue_pairs().for_each([&](const engine::QueuePair& other) {
      if (&other != &qp && other.qos_class == qp.qos_class)
        others += minimums.of_queue_pair(other.slot).per_second;
    });
  const std::uint64_t free = all - std::min(all, others);
  if (asked > free)
    return RpcError{RpcCode::kRefused,
                    "asked for min_bytes_per_second = " + std::to_string(asked) + ", but " +
                        (level != nullptr ? "level " + level->name : "tenant " + qp.tenant->name) +
                        " has rate.min_bytes_per_second = " + std::to_string(all) + ", and " +
                        std::to_string(others) + " of it belong to other queue pairs",
                    {}};
  const auto sent = qp.sq.rates != nullptr ? qp.sq.rates->sent.limits() : RateLimits{};
  const RateLimits limits = changed(sent, kSent, params);
  if (limits.bytes_per_second != 0 && asked > limits.bytes_per_second)
    return invalid_params(
        std::string(kMinimum) + " = " + std::to_string(asked) +
        " is above bytes_per_second = " + std::to_string(limits.bytes_per_second));
  return std::nullopt;
}

std::optional<RpcError> AdminView::set_rate(const DeviceSession& owner, const engine::QueuePair& qp,
                                            const Json& params) {
  if (auto wrong = reserve_record()) return wrong;
  const QpRates unlimited;
  // Only this thread's requests change limits, so it may read them.
  const QpRates& rates = qp.sq.rates != nullptr ? *qp.sq.rates : unlimited;
  std::uint64_t minimum = adapter_.engine.minimums.of_queue_pair(qp.slot).per_second;
  if (params.contains(kMinimum))
    minimum = params.at(kMinimum).is_null() ? 0 : params.at(kMinimum).get<std::uint64_t>();
  owner.queue_pairs().set_rates(qp.qpn.value,
                                {changed(rates.sent.limits(), kSent, params), minimum},
                                {changed(rates.peers.inbound.limits(), kInbound, params)},
                                {changed(rates.peers.served.limits(), kServed, params)});
  return std::nullopt;
}

void add_throttling(Json& out, const RateGate& gate) {
  add_held(out, gate.held.value() != 0, gate.held_ns.value());
}

void add_throttling(Json& out, const engine::PeerGates& gates) {
  for (const auto& [name, gate] :
       {std::pair("inbound", &gates.inbound), std::pair("served", &gates.served)}) {
    add_throttling(out[name], *gate);
    out[name]["rated_bytes"] = gate->bytes.value();
  }
}

Json to_json(const engine::QpRatesShot& rates) {
  const auto of_gate = [](const engine::GateShot& gate) {
    Json out;
    add_held(out, gate.held, gate.held_ns);
    for (const RateKey& key : kRateKeys) out[key.name] = gate.limits.*key.member;
    return out;
  };
  Json out = of_gate(rates.sent);
  out[kMinimum] = rates.min_bytes_per_second;
  out["inbound"] = of_gate(rates.inbound);
  out["served"] = of_gate(rates.served);
  return out;
}

}  // namespace softhca::control
