// SPDX-License-Identifier: Apache-2.0

#include "daemon/services/connections.hpp"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <set>
#include <utility>

#include "daemon/configuration/resource_manager/connections_carried.hpp"
#include "daemon/device/adapter/control_clock.hpp"
#include "daemon/engine/addresses/local_addresses.hpp"
#include "daemon/engine/packets/packet_io.hpp"
#include "daemon/engine/requests/showing.hpp"
#include "daemon/roce/rdma_cm/kept_state.hpp"
#include "daemon/services/performance.hpp"
#include "daemon/services/tenant_paths.hpp"

namespace softhca::control {
namespace {

using namespace management;

constexpr auto kConnectionManagement =
    static_cast<std::uint8_t>(wire::ManagementClass::kCommunication);

// Interval and number of polls for neighbours that programs wait for, and the time after which a
// silent neighbour counts as absent.
constexpr Duration kLook = std::chrono::milliseconds(2);
constexpr std::size_t kLooks = 64;
constexpr Duration kResolveTimeout = std::chrono::seconds(3);
constexpr std::size_t kMostPending = 4096;

// The time that programs have to clean up when their adapter is removed.
constexpr Duration kFarewell = std::chrono::seconds(2);

static_assert(ConnectionCounters::kRefusals == static_cast<std::size_t>(rdma_cm::Refusal::kCount));

}  // namespace

/// The environment of a tenant's service.
class Connections::ServedTenant final : public rdma_cm::RdmaCmEnvironment {
 public:
  ServedTenant(Adapter& adapter, GeneralServices& agent, engine::Tenant& tenant)
      : adapter_(adapter),
        agent_(agent),
        tenant_(tenant),
        devices_(devices_of(adapter, tenant)),
        state_(adapter.records == nullptr ? std::optional<rdma_cm::KeptState>()
                                          : std::optional<rdma_cm::KeptState>(
                                                std::in_place, *adapter.records, tenant.name,
                                                [this](const Error& why) { complain(why); })),
        service_(*this) {
    read_addresses();
  }

  engine::Tenant& tenant() const { return tenant_; }
  rdma_cm::Service& service() { return service_; }

  void read_addresses() {
    addresses_.clear();
    std::map<std::pair<std::uint8_t, std::uint8_t>, std::uint8_t> next;  // by device and port
    for (const auto& address : tenant_.addresses)
      addresses_.push_back({.gid = address.gid,
                            .index = next[{address.device, address.device_port}]++,
                            .port = address.device_port});
  }

  void configure(const configuration::TenantConfig& config) {
    const configuration::ConnectionsConfig& to = config.connections;
    service_.set_limits({.identifiers = to.identifiers,
                         .listeners = to.listeners,
                         .backlog = to.half_open,
                         .connects_per_second = to.connects_per_second},
                        {.connections = to.most, .half_open = to.half_open});
    limits_ = to;
    std::vector<rdma_cm::ConnectionAdmission::Part> parts;
    for (const configuration::Carried& part : configuration::carried_by(config))
      parts.push_back({part.level, part.connections, part.shares});
    // Each connection has a queue pair of its own.
    const auto queue_pairs = std::min<std::uint64_t>(
        config.limits[configuration::Kind::kQueuePairs], rdma_cm::ConnectionAdmission::kAll);
    service_.admission().set(parts, static_cast<std::uint32_t>(queue_pairs));
  }

  ConnectionFigures figures() {
    copy_figures();
    const ConnectionCounters& c = counters();
    using rdma_cm::Refusal;
    ConnectionFigures out{
        .tenant = tenant_.name,
        .limits = {{Refusal::kIdentifiers, "identifiers", limits_.identifiers,
                    c.identifiers.value()},
                   {Refusal::kListeners, "listeners", limits_.listeners, c.listeners.value()},
                   {Refusal::kBacklog, "backlog", limits_.half_open, {}},
                   {Refusal::kConnections, "most", limits_.most, c.connections.value()},
                   {Refusal::kHalfOpen, "half_open", limits_.half_open, c.half_open.value()},
                   {Refusal::kConnectRate, "connects_per_second", limits_.connects_per_second, {}}},
        .admitted = service_.admission().admitted(),
        .most_admitted = service_.admission().most(),
        .levels = service_.admission().view()};
    for (ConnectionFigures::Limit& limit : out.limits)
      limit.refused = c.refused[static_cast<std::size_t>(limit.refusal)].value();
    return out;
  }

  void receive(const engine::Datagram& datagram, Time now) {
    service_.receive({datagram.payload.data(), datagram.length},
                     {.local = datagram.path.source,
                      .remote = datagram.path.destination,
                      .flow_label = datagram.path.flow_label,
                      .traffic_class = datagram.path.traffic_class},
                     datagram.peer, now);
  }

  bool retire(Time now) {
    if (!service_.is_removed()) {
      service_.device_removed();
      retired_at_ = now;
    }
    return service_.identifiers() == 0 || now - retired_at_ >= kFarewell;
  }

  bool restore(const rdma_cm::KeptState::Recorded& of, records::Record record) {
    state_->adopt(of, std::move(record));
    return service_.restore(of.kind, of.number, of.state, now());
  }
  void end_restoring() {
    service_.end_restoring(now());
    service_.retransmit(now());
    for (const rdma_cm::ChannelId channel : service_.channel_ids())
      while (!signals_.contains(channel) && !service_.close_channel(channel, now())) {
      }
  }

  void add_signal(rdma_cm::ChannelId channel, std::function<void()> signal) {
    signals_.emplace(channel, std::move(signal));
  }
  void remove_signal(rdma_cm::ChannelId channel) { signals_.erase(channel); }

  Time next_deadline() const {
    return std::min(service_.next_deadline(), pending_.empty() ? kNever : next_look_);
  }
  void expire(Time now) {
    service_.expire(now);
    if (!pending_.empty() && now >= next_look_) look_for_neighbours(now);
  }

  void copy_figures() {
    ConnectionCounters& to = counters();
    const cm::Manager& manager = service_.manager();
    const cm::Counters& from = manager.counters();
    to.mads_received.set(from.received);
    to.mads_sent.set(from.sent);
    to.retries.set(from.retries);
    to.duplicates.set(from.duplicates);
    to.malformed.set(from.malformed);
    to.stale.set(from.stale);
    to.timeouts.set(from.timeouts);
    to.connections.set(manager.size());
    to.half_open.set(manager.half_open());
    to.listeners.set(static_cast<std::uint32_t>(service_.listeners()));
    to.identifiers.set(static_cast<std::uint32_t>(service_.identifiers()));
    to.event_channels.set(static_cast<std::uint32_t>(service_.channels()));
  }

  // --- rdma_cm::RdmaCmEnvironment

  cm::StateRecords* records() override { return state_ ? &*state_ : nullptr; }

  void send(const cm::Path& path, const wire::Mad& mad) override {
    engine::Datagram datagram;
    datagram.path = path_between(adapter_, tenant_, path.local, path.remote);
    datagram.path.flow_label = path.flow_label;
    datagram.path.traffic_class = path.traffic_class;
    datagram.path.hop_limit = path.hop_limit;
    datagram.peer = engine::kGeneralServicesQpn;
    datagram.tenant = tenant_.id;
    datagram.gives_way = path.standing == cm::Standing::kUnknown;
    static_assert(sizeof mad == engine::Datagram::kBytes);
    std::copy(mad.begin(), mad.end(), datagram.payload.begin());
    once_recorded([this, datagram] { agent_.send(datagram); });
  }

  std::uint32_t random() override {
    if (randoms_left_ == 0) {
      // getrandom(2) always returns up to 256 bytes completely.
      [[maybe_unused]] const ssize_t got = ::getrandom(randoms_.data(), sizeof randoms_, 0);
      static_assert(sizeof randoms_ <= 256);
      randoms_left_ = randoms_.size();
    }
    return std::exchange(randoms_[--randoms_left_], 0);
  }

  void note_established_peer(const Gid& peer) override {
    agent_.vouch_for(tenant_, kConnectionManagement, peer);
  }

  /// The process has not taken at most two signals at any time.
  void signal(rdma_cm::ChannelId channel) override {
    once_recorded([this, channel] {
      const auto found = signals_.find(channel);
      if (found != signals_.end()) found->second();
    });
  }

  std::span<const rdma_cm::TenantGid> addresses() const override { return addresses_; }

  rdma_cm::TenantAdapter adapter(const std::optional<Gid>& own) const override {
    const auto* const address = own ? tenant_.find_address(*own) : nullptr;
    const engine::Tenant::Address at = address != nullptr ? *address : engine::Tenant::Address{};
    rdma_cm::TenantAdapter found = devices_.at(at.device);
    found.path_mtu = mtu_code(adapter_.path_mtu(tenant_, {at.device, at.device_port}));
    found.port = at.device_port;
    return found;
  }

  std::optional<Gid> source_for(const Gid& destination) const override {
    return control::source_for(adapter_, tenant_, destination);
  }

  std::string networks(bool ipv4) const override {
    return control::networks(adapter_, tenant_, ipv4);
  }

  bool may_name_queue_pair(Qpn qpn, uid_t user) const override {
    const auto found = adapter_.worker.run(engine::FindQp{qpn});
    return !found || (found->tenant == &tenant_ && found->user == user);
  }

  void resolve(const Gid& source, const Gid& destination, rdma_cm::ResolveCookie cookie) override {
    if (adapter_.engine.addresses.is_local(destination) || destination.is_multicast())
      return service_.resolved(cookie, true);
    if (pending_.size() >= kMostPending) return service_.resolved(cookie, false);
    if (pending_.empty()) next_look_ = now();
    pending_.push_back(
        {path_between(adapter_, tenant_, source, destination), cookie, now() + kResolveTimeout});
  }

  void note_refused(rdma_cm::Refusal refusal) override {
    const auto index = static_cast<std::size_t>(refusal);
    counters().refused[index].add();
    if (!complaints_[index].allows(now())) return;
    adapter_.journal.add({.kind = "connection_refused",
                          .tenant = tenant_.name,
                          .text = why(refusal) + "; requests refused for this reason so far: " +
                                  std::to_string(counters().refused[index].value())});
  }
  void note_reject_sent(wire::CmRejectReason reason) override {
    counters().rejects_sent[reject_index(reason)].add();
  }
  void note_reject_received(wire::CmRejectReason reason) override {
    counters().rejects_received[reject_index(reason)].add();
  }
  void note_unreachable(rdma_cm::Role) override { counters().unreachable.add(); }
  void note_established(rdma_cm::Role role, Duration took) override {
    (role == rdma_cm::Role::kActive ? counters().established_active
                                    : counters().established_passive)
        .add();
    counters().establish_ns.add(static_cast<std::uint64_t>(took.count()));
  }

 private:
  struct PendingResolution {
    engine::AddressPath path;
    rdma_cm::ResolveCookie cookie;
    Time until{};
  };

  /// Returns the devices of the tenant. Their path MTUs may change later.
  static std::vector<rdma_cm::TenantAdapter> devices_of(const Adapter& adapter,
                                                        const engine::Tenant& tenant) {
    std::vector<rdma_cm::TenantAdapter> devices;
    for (const configuration::TenantDevice& device : adapter.devices(tenant))
      devices.push_back(
          {.node_guid = adapter.node_guid(tenant, static_cast<std::uint8_t>(devices.size())),
           .packet_rate = configuration::codes_of(device.rate).path_rate});
    return devices;
  }

  std::string why(rdma_cm::Refusal refusal) {
    const std::uint32_t admitted = service_.admission().admitted();
    if (refusal == rdma_cm::Refusal::kAdmission)
      return admitted == 0 ? "its guarantees carry 0 connections (pcbs_each); raise its PCBs or "
                             "credits"
                           : "its guarantees carry only the " + std::to_string(admitted) +
                                 " connections that it has; raise its PCBs or credits";
    if (refusal == rdma_cm::Refusal::kBacklog)
      return "a listener has as many waiting requests as its program allowed, or as "
             "connections.half_open = " +
             std::to_string(limits_.half_open);
    if (refusal == rdma_cm::Refusal::kHalfOpen)
      return "limit reached, connections.half_open = " + std::to_string(limits_.half_open);
    if (refusal == rdma_cm::Refusal::kPeers)
      return "a peer has used its share of half-open connections (connections.half_open = " +
             std::to_string(limits_.half_open) + ")";
    if (refusal == rdma_cm::Refusal::kEvents)
      return "a program's rdma_cm event queue is full; it does not call rdma_get_cm_event";
    for (const ConnectionFigures::Limit& limit : figures().limits)
      if (limit.refusal == refusal)
        return std::string("limit reached, connections.") + limit.key + " = " +
               std::to_string(limit.limit);
    return name_of(refusal);
  }

  /// Calls `action` when the call of the service is recorded.
  void once_recorded(std::function<void()> action) {
    if (!state_) return action();
    state_->after_commit(std::move(action));
  }
  void complain(const Error& why) {
    if (!unrecorded_.allows(now())) return;
    adapter_.journal.add(
        {.kind = "not_recorded",
         .tenant = tenant_.name,
         .text = "a restart would end some of its rdma_cm connections: " + why.message});
  }

  static std::size_t reject_index(wire::CmRejectReason reason) {
    const auto code = static_cast<std::size_t>(reason);
    return code < ConnectionCounters::kRejectReasons ? code : 0;
  }
  ConnectionCounters& counters() { return tenant_.control.connections; }

  void look_for_neighbours(Time now) {
    const std::size_t count = std::min(pending_.size(), kLooks);
    std::vector<engine::AddressPath> paths;
    for (std::size_t i = 0; i < count; ++i) paths.push_back(pending_[i].path);
    std::vector<engine::Reach> found(count);
    adapter_.worker.run(engine::CheckPaths{paths, found});
    // Those that were polled go behind the others.
    std::vector<PendingResolution> tried(pending_.begin(),
                                         pending_.begin() + static_cast<std::ptrdiff_t>(count));
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(count));
    next_look_ = now + kLook;
    for (std::size_t i = 0; i < count; ++i) {
      if (found[i] == engine::Reach::kUnknown && now < tried[i].until)
        pending_.push_back(tried[i]);
      else
        service_.resolved(tried[i].cookie, found[i] == engine::Reach::kReady);
    }
  }

  Adapter& adapter_;
  GeneralServices& agent_;
  engine::Tenant& tenant_;
  const std::vector<rdma_cm::TenantAdapter> devices_;
  std::vector<rdma_cm::TenantGid> addresses_;
  std::optional<rdma_cm::KeptState> state_;
  rdma_cm::Service service_;
  configuration::ConnectionsConfig limits_;
  std::array<ComplaintLimit, static_cast<std::size_t>(rdma_cm::Refusal::kCount)> complaints_{};
  std::map<rdma_cm::ChannelId, std::function<void()>> signals_;
  std::vector<PendingResolution> pending_;
  Time next_look_{};
  std::array<std::uint32_t, 64> randoms_{};
  std::size_t randoms_left_ = 0;
  Time retired_at_{};
  ComplaintLimit unrecorded_;
};

Connections::Connections(Adapter& adapter, GeneralServices& agent)
    : adapter_(adapter), agent_(agent) {}
Connections::~Connections() = default;

Connections::ServedTenant* Connections::served(const engine::Tenant& tenant) {
  for (const auto& it : served_)
    if (&it->tenant() == &tenant) return it.get();
  return nullptr;
}

Outcome Connections::add(engine::Tenant& tenant) {
  // A removed tenant with the same number may still be served.
  for (const auto& it : served_)
    if (it->tenant().id == tenant.id) {
      remove(it->tenant());
      break;
    }
  const auto refused = [&](const Error& error) {
    return Error{"tenant " + tenant.name + ": " + error.message, error.code};
  };
  const auto added = agent_.add_client(
      tenant, kConnectionManagement,
      {.name = "connection manager", .receive = [this, &tenant](const engine::Datagram& datagram) {
         if (ServedTenant* it = served(tenant)) it->receive(datagram, now());
       }});
  if (!added) return refused(added.error());
  if (const auto watched = add_performance_agent(agent_, adapter_, tenant); !watched) {
    agent_.remove_client(tenant, kConnectionManagement);
    return refused(watched.error());
  }
  served_.push_back(std::make_unique<ServedTenant>(adapter_, agent_, tenant));
  return {};
}

/// Does nothing if the tenant is not served: another tenant may have its number by now.
void Connections::remove(const engine::Tenant& tenant) {
  if (served(tenant) == nullptr) return;
  remove_performance_agent(agent_, tenant);
  agent_.remove_client(tenant, kConnectionManagement);
  std::erase_if(served_, [&](const auto& it) { return &it->tenant() == &tenant; });
}

void Connections::configure(const engine::Tenant& tenant,
                            const configuration::TenantConfig& config) {
  if (ServedTenant* it = served(tenant)) it->configure(config);
}

std::optional<ConnectionFigures> Connections::figures(const engine::Tenant& tenant) {
  ServedTenant* it = served(tenant);
  if (it == nullptr) return std::nullopt;
  return it->figures();
}

void Connections::addresses_changed(const engine::Tenant& tenant) {
  ServedTenant* it = served(tenant);
  if (it == nullptr) return;
  it->read_addresses();
  it->service().addresses_changed();
}

bool Connections::retire(const engine::Tenant& tenant) {
  ServedTenant* it = served(tenant);
  return it == nullptr || it->retire(now());
}

bool Connections::retire() {
  bool done = true;
  for (const auto& it : served_) done = it->retire(now()) && done;
  return done;
}

bool Connections::is_retired(const engine::Tenant& tenant) {
  ServedTenant* it = served(tenant);
  return it != nullptr && it->service().is_removed();
}

std::optional<management::rdma_cm::ChannelId> Connections::open_channel(
    const engine::Tenant& tenant, const management::rdma_cm::ChannelOwner& owner,
    std::function<void()> signal) {
  ServedTenant* it = served(tenant);
  if (it == nullptr) return std::nullopt;
  const auto channel = it->service().open_channel(owner);
  it->add_signal(channel, std::move(signal));
  return channel;
}

bool Connections::restore_channel(const engine::Tenant& tenant,
                                  management::rdma_cm::ChannelId channel,
                                  std::function<void()> signal) {
  ServedTenant* it = served(tenant);
  if (it == nullptr || !it->service().has_channel(channel)) return false;
  it->add_signal(channel, std::move(signal));
  return true;
}

void Connections::restore(std::span<records::Adopted> left) {
  struct State {
    std::unique_ptr<ServedTenant>* of = nullptr;
    rdma_cm::KeptState::Recorded recorded;
    records::Record* record = nullptr;
  };
  std::vector<State> states;
  for (records::Adopted& each : left) {
    if (each.kind != records::Kind::kConnectionManager) continue;
    const auto recorded = rdma_cm::KeptState::read(each.body);
    const auto of = std::ranges::find_if(
        served_, [&](const auto& it) { return recorded && it->tenant().name == recorded->tenant; });
    if (of != served_.end())
      states.push_back({&*of, *recorded, &each.record});
    else
      adapter_.note_unfit(recorded ? recorded->tenant : "",
                          "a record of rdma_cm does not fit; it is left out");
  }
  std::ranges::sort(states, {}, [](const State& state) {
    return std::pair(state.recorded.kind, state.recorded.number);
  });
  std::set<std::string> unfit;
  for (const State& state : states) {
    const rdma_cm::KeptState::Recorded& recorded = state.recorded;
    if (unfit.contains(recorded.tenant)) continue;
    if ((*state.of)->restore(recorded, std::move(*state.record))) continue;
    unfit.insert(recorded.tenant);
    engine::Tenant& tenant = (*state.of)->tenant();
    *state.of = std::make_unique<ServedTenant>(adapter_, agent_, tenant);
    (*state.of)->configure(Adapter::settings(tenant));
    adapter_.note_unfit(tenant.name,
                        "the record of object " + std::to_string(recorded.number) + " of kind " +
                            std::to_string(static_cast<unsigned>(recorded.kind)) +
                            " of rdma_cm does not fit; all its event channels are closed");
  }
}

void Connections::end_restoring() {
  for (const auto& it : served_) it->end_restoring();
}

bool Connections::close_channel(const engine::Tenant& tenant,
                                management::rdma_cm::ChannelId channel, const Turn& turn) {
  ServedTenant* it = served(tenant);
  if (it == nullptr) return true;
  it->remove_signal(channel);
  while (!it->service().close_channel(channel, now()))
    if (turn.is_over()) return false;
  return true;
}

management::rdma_cm::Service* Connections::find(const engine::Tenant& tenant) {
  ServedTenant* it = served(tenant);
  return it != nullptr ? &it->service() : nullptr;
}

Time Connections::next_deadline() const {
  Time next = kNever;
  for (const auto& it : served_) next = std::min(next, it->next_deadline());
  return next;
}

void Connections::tick() {
  std::vector<ConnectionFigures> all;
  for (const auto& it : served_) all.push_back(it->figures());
  const std::lock_guard lock(adapter_.tenants_changing);
  adapter_.connections = std::move(all);
}

/// Serves the tenants in turn.
void Connections::expire(Time now) {
  for (std::size_t looked = 0; looked < served_.size(); ++looked) {
    ServedTenant& it = *served_[next_expiring_++ % served_.size()];
    if (now >= it.next_deadline()) return it.expire(now);
  }
}

}  // namespace softhca::control
