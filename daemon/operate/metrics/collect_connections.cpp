// SPDX-License-Identifier: Apache-2.0

// Connections by rdma_cm, and the general services agent that carries their messages.
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "daemon/engine/state/costs.hpp"
#include "daemon/operate/metrics/collect.hpp"
#include "daemon/qos/collect/pcb_pool.hpp"
#include "daemon/qos/gsa/client.hpp"
#include "daemon/qos/schedule/tvl_table.hpp"
#include "daemon/roce/rdma_cm/connection_figures.hpp"
#include "daemon/roce/rdma_cm/rdma_cm_environment.hpp"

namespace softhca::metrics {
namespace {

using management::ConnectionCounters;
using management::gsa::Discard;

struct Reason {
  wire::CmRejectReason code;
  const char* name;
};
constexpr Reason kReasons[] = {
    {wire::CmRejectReason::kNoQueuePair, "no_queue_pair"},
    {wire::CmRejectReason::kNoResources, "no_resources"},
    {wire::CmRejectReason::kTimeout, "timeout"},
    {wire::CmRejectReason::kUnsupported, "unsupported"},
    {wire::CmRejectReason::kInvalidCommId, "invalid_comm_id"},
    {wire::CmRejectReason::kInvalidServiceId, "invalid_service_id"},
    {wire::CmRejectReason::kInvalidTransportType, "invalid_transport_type"},
    {wire::CmRejectReason::kStaleConnection, "stale_connection"},
    {wire::CmRejectReason::kConsumer, "consumer"},
    {wire::CmRejectReason::kDuplicateLocalCommId, "duplicate_local_comm_id"},
};

using Rejects = std::array<Counter, ConnectionCounters::kRejectReasons>;

void add_rejects(Families& out, const char* name, const char* help, const std::string& tenant,
                 const Rejects& rejects) {
  // Reads each counter once, as it may change meanwhile.
  std::array<double, ConnectionCounters::kRejectReasons> values;
  std::transform(rejects.begin(), rejects.end(), values.begin(), number);
  for (const Reason& reason : kReasons) {
    const double value = std::exchange(values[static_cast<std::size_t>(reason.code)], 0);
    out.counter(name, help, {{"tenant", tenant}, {"reason", reason.name}}, value);
  }
  out.counter(name, help, {{"tenant", tenant}, {"reason", "other"}},
              std::accumulate(values.begin(), values.end(), 0.0));
}

/// Returns the name of the tenant that a client belongs to. Empty: the tenant is gone.
std::string tenant_name(const Source& source, management::gsa::ClientKey key) {
  for (const auto& tenant : source.tenants)
    if (tenant->id == engine::tenant_of(key)) return tenant->name;
  return "";
}

/// Adds the PCBs and credits that only the queue pair can take.
void add_allocation(Families& out, const Source& source, const engine::Tenant& tenant,
                    const Labels& labels) {
  out.gauge("softhca_gsa_pcbs", "PCBs that only the queue pair can take.", labels,
            source.engine.pcbs.guaranteed(tenant.qos_class));
  const schedule::TvlTable& tvls = source.engine.tvls;
  double execution = 0, completion = 0;
  for (std::uint16_t i = 0; i < tvls.size(); ++i) {
    const schedule::Tvl& tvl = tvls[TvlId(i)];
    if (!tvl.used || tvl.tenant != tenant.id) continue;
    execution += tvl.execution.guaranteed.value();
    completion += tvl.completion.guaranteed.value();
  }
  const char* const kName = "softhca_gsa_credits";
  const char* const kHelp = "Credits that only the queue pair can take.";
  out.gauge(kName, kHelp, with(labels, "kind", "execution"), execution);
  out.gauge(kName, kHelp, with(labels, "kind", "completion"), completion);
}

/// Adds the figures of queue pair 1 (general services) or 2 (between programs).
void add_services(Families& out, const Source& source, const GeneralServices& services,
                  const Labels& labels) {
  const engine::SharedQpCounters& c = services.counters;
  const auto one = [&](const char* name, const char* help, const Counter& value) {
    out.counter(name, help, labels, number(value));
  };
  one("softhca_gsa_sent_total", "Datagrams sent.", c.sent);
  one("softhca_gsa_received_total", "Datagrams given to clients.", c.received);
  one("softhca_gsa_send_refused_total", "Datagrams refused because their client sent too many.",
      c.send_refused);
  one("softhca_gsa_unresolved_total", "Datagrams to neighbours that did not answer.", c.unresolved);
  one("softhca_gsa_over_share_total",
      "Datagrams discarded because the queue pair had used up its share of the engine.",
      c.over_share);
  one("softhca_gsa_bad_length_total",
      "Datagrams discarded because they were too long, or too short to name a client.",
      c.bad_length);
  out.counter("softhca_gsa_engine_seconds_total", "Engine time for the queue pair.", labels,
              number(services.tenant.counters.engine_time) / engine::kUnitsPerSecond);
  add_allocation(out, source, services.tenant, labels);
  const management::gsa::PoolCounters& pool = services.pool;
  out.gauge("softhca_gsa_buffers_posted", "Buffers that wait for datagrams.", labels,
            static_cast<double>(pool.posted.value()));
  out.gauge("softhca_gsa_buffers_in_use", "Buffers that clients hold.", labels,
            static_cast<double>(pool.in_use.value()));
  out.gauge("softhca_gsa_buffers_added", "Buffers posted in addition to the clients' shares.",
            labels, static_cast<double>(pool.added.value()));
  one("softhca_gsa_discarded_without_client_total", "Datagrams for which no client is registered.",
      pool.discarded[static_cast<std::size_t>(Discard::kNoClient)]);
}

/// Returns the number of a management class that the daemon itself is a client of. "" for classes
/// of programs, which a tenant chooses freely.
std::string class_label(std::uint32_t selector) {
  for (const auto own :
       {wire::ManagementClass::kCommunication, wire::ManagementClass::kPerformance})
    if (selector == engine::class_selector(static_cast<std::uint8_t>(own)))
      return std::to_string(engine::class_of(selector));
  return "";
}

/// Sums over the clients with the same labels.
struct ClientSums {
  double quota = 0, asked = 0, in_use = 0, received = 0, raised = 0;
  std::array<double, management::gsa::kDiscards> discarded{};

  void add(const management::gsa::ClientCounters& own) {
    quota += own.share.value();
    asked += own.asked.value();
    in_use += own.held.value();
    received += number(own.received);
    raised += number(own.raised);
    for (std::size_t i = 0; i < discarded.size(); ++i) discarded[i] += number(own.discarded[i]);
  }
};

/// `of_class`: the clients are registered for management classes.
void add_clients(Families& out, const Source& source, const GeneralServices& services,
                 const Labels& queue_pair, bool of_class) {
  std::map<std::pair<std::string, std::string>, ClientSums> sums;  // by tenant and class
  for (const auto& client : services.clients()) {
    const std::uint32_t selector = engine::selector_of(client.key);
    sums[{tenant_name(source, client.key), of_class ? class_label(selector) : ""}].add(
        client.counters);
  }
  for (const auto& [of, sum] : sums) {
    const Labels labels = with(with(queue_pair, "tenant", of.first), "class", of.second);
    out.gauge("softhca_gsa_client_quota", "Buffers posted for the clients.", labels, sum.quota);
    out.gauge("softhca_gsa_client_asked", "Buffers the clients asked for.", labels, sum.asked);
    out.gauge("softhca_gsa_client_in_use", "Buffers the clients hold.", labels, sum.in_use);
    out.counter("softhca_gsa_client_received_total", "Datagrams given to the clients.", labels,
                sum.received);
    out.counter("softhca_gsa_client_raised_total", "Times a client's quota was raised.", labels,
                sum.raised);
    for (std::size_t i = 1; i < management::gsa::kDiscards; ++i)
      if (static_cast<Discard>(i) != Discard::kNoClient)
        out.counter("softhca_gsa_client_discarded_total",
                    "Datagrams for the clients that were discarded.",
                    with(labels, "cause", name_of(static_cast<Discard>(i))), sum.discarded[i]);
  }
}

}  // namespace

void add_connections(Families& out, const engine::Tenant& tenant) {
  const ConnectionCounters& c = tenant.control.connections;
  const Labels labels{{"tenant", tenant.name}};
  const auto counter = [&](const char* name, const char* help, const Counter& value) {
    out.counter(name, help, labels, number(value));
  };
  const auto gauge = [&](const char* name, const char* help, const Gauge& value) {
    out.gauge(name, help, labels, static_cast<double>(value.value()));
  };
  const char* const kEstablished = "softhca_connections_established_total";
  const char* const kEstablishedHelp = "Connections established by rdma_cm.";
  out.counter(kEstablished, kEstablishedHelp, with(labels, "role", "active"),
              number(c.established_active));
  out.counter(kEstablished, kEstablishedHelp, with(labels, "role", "passive"),
              number(c.established_passive));
  out.histogram("softhca_connection_establish_seconds",
                "Time from a program's connect, or a peer's request, to the connection.", labels,
                c.establish_ns, std::uint64_t{1} << 12, std::uint64_t{1} << 36, 1e-9);
  add_rejects(out, "softhca_connection_rejects_sent_total", "Refusals (REJ) sent.", tenant.name,
              c.rejects_sent);
  add_rejects(out, "softhca_connection_rejects_received_total", "Refusals (REJ) received.",
              tenant.name, c.rejects_received);
  for (std::size_t i = 0; i < static_cast<std::size_t>(management::rdma_cm::Refusal::kCount); ++i)
    out.counter("softhca_connection_refusals_total",
                "Connections, listeners and identifiers refused to the tenant.",
                with(labels, "limit", name_of(static_cast<management::rdma_cm::Refusal>(i))),
                number(c.refused[i]));
  counter("softhca_connections_unreachable_total",
          "Connection attempts of programs that got no reply.", c.unreachable);
  counter("softhca_connection_messages_received_total",
          "Messages of connection management received.", c.mads_received);
  counter("softhca_connection_messages_sent_total", "Messages of connection management sent.",
          c.mads_sent);
  counter("softhca_connection_retries_total", "Messages sent again because no reply came.",
          c.retries);
  counter("softhca_connection_duplicates_total", "Messages received again.", c.duplicates);
  counter("softhca_connection_malformed_total", "Messages received that were malformed.",
          c.malformed);
  counter("softhca_connection_stale_total",
          "Requests from a queue pair that was already connected.", c.stale);
  gauge("softhca_connections", "Connections, including those being set up and those in TIME-WAIT.",
        c.connections);
  gauge("softhca_connections_half_open",
        "Connections that peers requested and that are not established yet.", c.half_open);
  gauge("softhca_connection_listeners", "Listening identifiers of rdma_cm.", c.listeners);
  gauge("softhca_connection_identifiers", "Identifiers of rdma_cm.", c.identifiers);
  gauge("softhca_connection_event_channels", "Event channels of rdma_cm.", c.event_channels);
}

void add_connection_limits(Families& out, const Source& source) {
  using management::rdma_cm::Admission;
  for (const management::ConnectionFigures& figures : source.connections) {
    const Labels labels{{"tenant", figures.tenant}};
    for (const auto& limit : figures.limits)
      out.gauge("softhca_connection_limit",
                "Limits of the tenant for rdma_cm; connects_per_second = 0: unlimited.",
                with(labels, "limit", name_of(limit.refusal)), limit.limit);
    for (const Admission::View& level : figures.levels) {
      const Labels own = with(labels, "level", level.level);
      out.gauge("softhca_connections_admitted",
                "Connections being set up or established, by level of their programs.", own,
                level.admitted);
      out.gauge("softhca_connections_carried", "Connections for which the guarantees suffice.", own,
                level.carries == Admission::kAll ? std::numeric_limits<double>::infinity()
                                                 : level.carries);
      out.counter("softhca_connections_not_carried_total",
                  "Connections refused because the guarantees do not suffice.", own,
                  static_cast<double>(level.refused));
    }
  }
}

void add_general_services(Families& out, const Source& source) {
  const Labels management{{"queue_pair", "1"}}, programs{{"queue_pair", "2"}};
  add_services(out, source, source.general_services, management);
  add_services(out, source, source.shared_datagrams, programs);
  add_clients(out, source, source.general_services, management, true);
  add_clients(out, source, source.shared_datagrams, programs, false);
}

}  // namespace softhca::metrics
