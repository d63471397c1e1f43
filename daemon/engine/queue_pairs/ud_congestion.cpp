// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/queue_pairs/ud_congestion.hpp"

#include "daemon/engine/commands/qp_stall.hpp"
#include "daemon/engine/records/costs.hpp"
#include "daemon/roce/wire/ud_probe.hpp"

namespace softhca::engine {
namespace {

using transport::PayloadSource;
using transport::UdFlow;

/// A path that carries so many bytes in this time, some 50 Mbit/s, is a flow.
constexpr std::uint64_t kFollowed = 64 << 10;
constexpr Duration kFollowedWithin = std::chrono::milliseconds(10);
/// Bytes that each datagram counts besides its payload.
constexpr std::uint64_t kDatagramHeaders = 66;

/// A flow that is idle for this time is forgotten. Paths that are not flows lose their place
/// sooner.
constexpr Duration kPathForgotten = std::chrono::seconds(10);
constexpr Duration kUnused = std::chrono::seconds(1);
/// The same for datagrams of a peer that sends no more probes.
constexpr Duration kNotAsked = std::chrono::seconds(2);

constexpr double kMegabit = 1e6 / 8;  ///< bytes

/// True for the queue pairs that the daemon has on all addresses: they send and receive little.
bool is_of_daemon(Qpn number) { return number.value <= QpTable::kOwn; }

wire::Headers management_headers() {
  wire::Headers h;
  h.opcode = wire::raw(wire::Opcode::kUdSendOnly);
  h.destination = h.source = Qpn(wire::kGeneralServicesQpn);
  h.qkey = wire::kGeneralServicesQkey;
  return h;
}
PayloadSource payload_of(const wire::Mad& mad) {
  return {.from = PayloadSource::From::kOwn,
          .length = static_cast<std::uint32_t>(mad.size()),
          .own = mad.data()};
}

}  // namespace

void UdCongestion::add(Tenant& tenant) {
  tenants_[tenant.id.value] = std::make_unique<OfTenant>(tenant, random());
}

void UdCongestion::remove(Tenant& tenant) { tenants_[tenant.id.value].reset(); }

void UdCongestion::configure(const CongestionParameters& congestion,
                             const FlightParameters& flight) {
  rules_ = {.flight = flight,
            .step = 2 * congestion.fixed.rpg_ai_rate * kMegabit,
            .least_rate = congestion.fixed.rpg_min_rate * kMegabit,
            .most_rate = congestion.rpg_max_rate * kMegabit};
  if (std::exchange(on_, congestion.datagrams) == congestion.datagrams) return;
  asked_until_ = Time{};
  for (auto& of : tenants_) {
    if (of == nullptr) continue;
    of->tenant.counters.congestion.slowed_paths.set(0);
    of = std::make_unique<OfTenant>(of->tenant, random());
  }
}

std::uint64_t UdCongestion::random() { return std::uint64_t{random_()} << 32 | random_(); }

/// Changes the flow of a path, and updates the tenant's count of paths that are slowed down.
template <class Change>
bool UdCongestion::change(Tenant& tenant, DatagramPath& path, Change&& change) {
  const bool before = path.flow.limited();
  const bool result = change(path.flow);
  const bool after = path.flow.limited();
  Gauge& slowed = tenant.counters.congestion.slowed_paths;
  if (after && !before) slowed.add();
  if (before && !after) slowed.subtract();
  return result;
}

void UdCongestion::forget(Tenant& tenant, DatagramPath& path, const FlowKey& way) {
  change(tenant, path, [](UdFlow& flow) {
    flow = UdFlow();
    return true;
  });
  path = {.way = way, .used = clock_.now, .counted_from = clock_.now};
}

// --- sending

DatagramPath* UdCongestion::path_of(QueuePair& qp, Qpn to, Route& route) {
  if (!on_ || is_of_daemon(qp.qpn) || is_of_daemon(to) || !route.path.port ||
      route.frame.is_empty())
    return nullptr;
  OfTenant& of = *this->of(*qp.tenant);
  const FlowKey way{.source = route.path.source,
                    .destination = route.path.destination,
                    .traffic_class = without_ecn(route.frame.traffic_class())};
  DatagramPath* path = of.paths.find(way);
  const auto unused_for = [&](const DatagramPath& p) { return clock_.now - p.used; };
  if (path == nullptr) {
    path = of.paths.place_for(way, [&](const DatagramPath& p) {
      return unused_for(p) > (p.followed ? kPathForgotten : kUnused);
    });
    if (path == nullptr) return nullptr;
    forget(*qp.tenant, *path, way);
  } else if (unused_for(*path) > kPathForgotten) {
    forget(*qp.tenant, *path, way);
  }
  path->used = clock_.now;
  return path;
}

void UdCongestion::mark(Route& route, const DatagramPath* path) {
  const bool reacts = path != nullptr && path->followed && path->flow.is_answered();
  if (route.cc_enabled == reacts) return;
  route.cc_enabled = reacts;
  route.invalidate();
}

bool UdCongestion::may_send(QueuePair& qp, Route& route, DatagramPath& path) {
  if (!path.followed) return true;
  const bool may =
      change(*qp.tenant, path, [&](UdFlow& flow) { return flow.may_send(rules_, clock_.now); });
  if (!may) {
    // Many queue pairs of a tenant may wait for one path: they must not all try at each chance.
    qp.connection.flow.hold_until(std::max(path.flow.next(), clock_.now + QpStall::least_wait(qp)));
    return false;
  }
  return !path.flow.wants_to_ask(clock_.now) || ask(qp, route, path);
}

/// Sends a probe. False: the port is full.
bool UdCongestion::ask(QueuePair& qp, Route& route, DatagramPath& path) {
  const wire::Mad mad = wire::encode(
      wire::DatagramQuestion{.id = path.flow.question(), .mark = path.way.traffic_class});
  wire::Headers h = management_headers();
  h.pkey = qp.rc.pkey;
  if (packets_.send(route, h, payload_of(mad), &qp) != transport::SendResult::kSent) return false;
  change(*qp.tenant, path, [&](UdFlow& flow) {
    flow.asked(clock_.now);
    return true;
  });
  qp.tenant->counters.congestion.questions.add();
  return true;
}

void UdCongestion::sent(QueuePair& qp, DatagramPath& path, std::uint32_t bytes) {
  if (path.followed) return path.flow.sent(bytes, clock_.now);
  if (clock_.now - path.counted_from > kFollowedWithin) {
    path.counted_from = clock_.now;
    path.bytes = 0;
  }
  path.bytes += bytes + kDatagramHeaders;
  if (path.bytes < kFollowed) return;
  path.followed = true;
  change(*qp.tenant, path, [&](UdFlow& flow) {
    flow = UdFlow(random());
    return true;
  });
}

bool UdCongestion::notified(QueuePair& qp, const wire::ParsedFrame& frame) {
  if (!on_ || is_of_daemon(qp.qpn)) return false;
  bool any = false;
  of(*qp.tenant)->paths.for_each_between(frame.destination, frame.source, [&](DatagramPath& path) {
    any |= path.followed &&
           change(*qp.tenant, path, [&](UdFlow& flow) { return flow.notify(rules_, clock_.now); });
  });
  return any;
}

// --- receiving

bool UdCongestion::receive(PortBinding& binding, const wire::ParsedFrame& frame) {
  const wire::Headers& h = frame.headers;
  if (!on_ || h.opcode != wire::raw(wire::Opcode::kUdSendOnly) ||
      h.qkey != wire::kGeneralServicesQkey || h.source.value != wire::kGeneralServicesQpn)
    return false;
  const auto question = wire::decode_datagram_question(frame.payload);
  const auto answer = wire::decode_datagram_answer(frame.payload);
  if (!question && !answer) return false;
  Tenant* const tenant = addresses_.owner(frame.destination, binding.id);
  if (tenant == nullptr) return false;
  if (answer && !take_answer(*tenant, frame, *answer)) return false;
  tenant->counters.wire.count_received(frame);
  cpu_.charge_packet(*tenant, tenant->qos_class, frame.payload.size());
  if (question) reply(binding, frame, *tenant, *question);
  return true;
}

bool UdCongestion::take_answer(Tenant& tenant, const wire::ParsedFrame& frame,
                               const wire::DatagramAnswer& answer) {
  DatagramPath* const path = of(tenant)->paths.find(
      {.source = frame.destination, .destination = frame.source, .traffic_class = answer.mark});
  if (path == nullptr || !path->followed) return false;
  return change(tenant, *path, [&](UdFlow& flow) {
    const transport::DatagramReceipt receipt{
        .counts = answer.counts, .since = answer.since, .received = {answer.packets, answer.bytes}};
    return flow.answer(answer.id, receipt, rules_, clock_.now);
  });
}

/// Sends one answer to each probe, of the same size and to where it came from: a sender that makes
/// up addresses gains nothing. Sends no answer if the table is full.
void UdCongestion::reply(PortBinding& binding, const wire::ParsedFrame& frame, Tenant& tenant,
                         const wire::DatagramQuestion& question) {
  if (!frame.source.is_unicast() || (frame.ethernet.source.bytes[0] & 1) != 0) return;
  const FlowKey way{.source = frame.source,
                    .destination = frame.destination,
                    .traffic_class = without_ecn(frame.traffic_class)};
  auto& table = of(tenant)->arrivals;
  Arrivals* arrivals = table.find(way);
  if (arrivals == nullptr) {
    arrivals =
        table.place_for(way, [&](const Arrivals& a) { return clock_.now - a.asked > kNotAsked; });
    if (arrivals == nullptr) return;
    *arrivals = {.way = way, .since = ++since_};
  }
  asked_until_ = clock_.now + kNotAsked;
  arrivals->asked = clock_.now;
  const wire::DatagramAnswer answer{.id = question.id,
                                    .mark = question.mark,
                                    .counts = true,
                                    .since = arrivals->since,
                                    .packets = arrivals->packets,
                                    .bytes = arrivals->bytes};
  const wire::FrameTemplate path({.source_mac = binding.port->mac(),
                                  .destination_mac = frame.ethernet.source,
                                  .vlan = binding.vlan ? frame.ethernet.vlan : std::nullopt,
                                  .source = frame.destination,
                                  .destination = frame.source,
                                  .traffic_class = way.traffic_class,
                                  .udp_source_port = binding.source_port(frame.udp_source_port),
                                  .key = packets_.authentication().sending_key(frame.source)});
  const wire::Mad mad = wire::encode(answer);
  const wire::Headers h = management_headers();
  if (packets_.send(binding, path, h, payload_of(mad), nullptr) == transport::SendResult::kSent)
    tenant.counters.wire.count_transmitted(path.frame_length(h.opcode, mad.size()), mad.size(),
                                           false);
}

void UdCongestion::arrived(const PortBinding& binding, const wire::ParsedFrame& frame) {
  if (is_of_daemon(frame.headers.destination)) return;
  Tenant* const tenant = addresses_.owner(frame.destination, binding.id);
  if (tenant == nullptr) return;
  Arrivals* const arrivals =
      of(*tenant)->arrivals.find({.source = frame.source,
                                  .destination = frame.destination,
                                  .traffic_class = without_ecn(frame.traffic_class)});
  if (arrivals == nullptr) return;
  ++arrivals->packets;
  arrivals->bytes += frame.payload.size();
}

}  // namespace softhca::engine
