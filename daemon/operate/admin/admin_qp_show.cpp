// SPDX-License-Identifier: Apache-2.0

// The method `qp.show`: one queue pair with its attributes and its last events. If the queue pair
// failed and is gone, the journal's entry of the failure.
#include "daemon/configuration/address.hpp"
#include "daemon/device/adapter/refusal_text.hpp"
#include "daemon/engine/requests/showing.hpp"
#include "daemon/operate/admin/admin_view.hpp"
#include "daemon/tenant_memory/region.hpp"

namespace softhca::control {
namespace {

using std::chrono::system_clock;

double since_epoch(system_clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

Json access_of(std::uint32_t flags) {
  constexpr std::pair<std::uint32_t, const char*> kNames[] = {
      {memory::kLocalWrite, "local_write"},   {memory::kRemoteWrite, "remote_write"},
      {memory::kRemoteRead, "remote_read"},   {memory::kRemoteAtomic, "remote_atomic"},
      {memory::kFlushGlobal, "flush_global"},
  };
  Json list = Json::array();
  for (const auto& [flag, name] : kNames)
    if ((flags & flag) != 0) list.push_back(name);
  return list;
}

Json attributes_of(const engine::QpDetails& details) {
  if (details.type == engine::QpType::kUd) return {{"qkey", details.qkey}};
  Json out = {{"access", access_of(details.access)}};
  if (!engine::is_reliable(details.type)) return out;
  out.update({{"timeout", details.rc.timeout},
              {"retry_count", details.rc.retry_count},
              {"rnr_retry", details.rc.rnr_retry},
              {"min_rnr_timer", details.rc.min_rnr_timer},
              {"max_rd_atomic", details.rc.max_rd_atomic},
              {"max_dest_rd_atomic", details.rc.max_dest_rd_atomic}});
  return out;
}

Json to_json(const std::vector<PastEvent>& past) {
  Json list = Json::array();
  for (const PastEvent& of : past) {
    const engine::QpEvent& event = of.event;
    Json out = {{"time", since_epoch(of.first)},
                {"kind", engine::name_of(event.kind())},
                {"count", event.count},
                {"detail", event.detail},
                {"text", engine::text_of(event)}};
    if (event.lasted_ms != 0) out["last"] = since_epoch(of.last());
    if (event.has_psn != 0) out["psn"] = event.psn;
    list.push_back(std::move(out));
  }
  return list;
}

Json of_one_that_is_gone(const JournalEntry& failure) {
  Json out = {{"qpn", failure.queue_pair},      {"gone", true},
              {"tenant", failure.tenant},       {"pid", failure.process},
              {"failure", failure.text},        {"failed", since_epoch(failure.time)},
              {"events", to_json(failure.past)}};
  if (failure.peer.empty()) return out;
  out["destination"] = failure.peer;
  out["destination_qpn"] = failure.peer_queue_pair;
  return out;
}

}  // namespace

RpcResult AdminView::show_queue_pair(const Json& params) {
  const auto qpn = params.at("qpn").get<std::uint32_t>();
  RpcResult found = queue_pairs({{"after", static_cast<std::int64_t>(qpn) - 1}, {"limit", 1}});
  if (!found) return found;
  Json& list = found.value().at("qps");
  if (list.empty() || list.front().at("qpn") != qpn) {
    take_engine_events();
    const JournalEntry* const failure = adapter_.journal.failure_of(qpn);
    if (failure == nullptr) return no_such("queue pair", std::to_string(qpn));
    return of_one_that_is_gone(*failure);
  }
  Json out = std::move(list.front());
  // Only this thread removes queue pairs, so it still exists.
  const engine::QpDetails details = adapter_.worker.run(engine::ShowQp{Qpn(qpn)});
  const system_clock::time_point wall = system_clock::now();
  const auto since =
      std::chrono::duration_cast<system_clock::duration>(details.now - details.since);
  out["state"] = engine::name_of(details.state);
  out["state_since"] = since_epoch(wall - since);
  if (out.contains("destination")) out["source"] = configuration::to_string(details.source);
  out["attributes"] = attributes_of(details);
  if (details.refusal) {
    out["reason"] = reason_text(details.refusal, out.value("destination", ""),
                                Qpn(out.value("destination_qpn", 0u)));
    out["cause"] = name_of(details.refusal.cause);
  }
  out["events"] = to_json(by_calendar(details.past, details.now, wall));
  return out;
}

}  // namespace softhca::control
