// SPDX-License-Identifier: Apache-2.0

#include "daemon/services/general_services.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/device/adapter/control_clock.hpp"

namespace softhca::control {
namespace {

// Datagrams given to clients before the control thread serves other requests.
constexpr int kPerTurn = 64;
constexpr std::uint32_t kCompletionCredits = 2 * engine::SharedQp::kSends;

management::gsa::SourceTable::Seed random_seed() {
  management::gsa::SourceTable::Seed seed{};
  // getrandom(2) always returns up to 256 bytes completely.
  [[maybe_unused]] const ssize_t got = ::getrandom(seed.data(), sizeof seed, 0);
  return seed;
}

management::gsa::Parameters parameters_of(const configuration::GeneralServicesConfig& config) {
  using std::chrono::milliseconds;
  return {.buffers = config.buffers,
          .buffers_per_client = config.buffers_per_client,
          .low_threshold = config.low_threshold,
          .high_threshold = config.high_threshold,
          .sources = {.part = config.fixed.source_part,
                      .rate = {.per_second = config.fixed.source_rate,
                               .burst = config.fixed.source_burst},
                      .new_part = config.fixed.new_sources_part,
                      .new_rate = {.per_second = config.fixed.new_sources_rate,
                                   .burst = config.fixed.new_sources_burst},
                      .probation = milliseconds(config.fixed.probation_ms),
                      .forget_after = milliseconds(config.fixed.forget_after_ms)},
          .adjustment = {.window = milliseconds(config.fixed.window_ms),
                         .raise_after = config.fixed.raise_after,
                         .lower_after = config.fixed.lower_after,
                         .most = config.fixed.raise_most}};
}

}  // namespace

GeneralServices::GeneralServices(engine::Worker& worker, const Place& place) : worker_(worker) {
  tenant_.id = place.tenant;
  tenant_.name = place.name;
}

GeneralServices::~GeneralServices() {
  if (service_) worker_.run(engine::CloseSharedQp{*service_});
}

Expected<std::unique_ptr<GeneralServices>> GeneralServices::open(
    engine::Worker& worker, const Place& place,
    const configuration::GeneralServicesConfig& config) {
  std::unique_ptr<GeneralServices> agent(new GeneralServices(worker, place));
  if (auto entered = agent->enter(place, config); !entered) return entered.error();
  return agent;
}

Outcome GeneralServices::enter(const Place& place,
                               const configuration::GeneralServicesConfig& config) {
  engine::SharedQp::Options options{.queue_pair = place.queue_pair,
                                    .parameters = parameters_of(config)};
  options.size.clients = place.clients;
  options.size.buffers = configuration::kMaxGeneralServicesBuffers;
  options.size.seed = random_seed();
  auto made = engine::SharedQp::make(tenant_, options, now());
  if (!made) return made.error();
  (*made)->set_engine_share(config.engine_share);
  const auto tvl_of = [&](schedule::TvlPurpose purpose) {
    const bool dedicated = purpose == schedule::TvlPurpose::kDedicated;
    return schedule::TvlTerms{.tenant = tenant_.id,
                              .purpose = purpose,
                              .weight = 1,
                              .max_kick_list = kCompletionCredits,
                              .execution_guaranteed = dedicated ? engine::SharedQp::kSends : 0,
                              .completion_guaranteed = dedicated ? kCompletionCredits : 0,
                              .may_share = !dedicated};
  };
  // The queue pair sends with the dedicated TVL: no other tenant can take its credits.
  Outcome opened = worker_.run(engine::OpenSharedQp{
      .service = **made,
      .tenant = tenant_,
      .group = {.tenant = tenant_.id, .guaranteed = engine::SharedQp::kSends, .may_share = false},
      .tvls = {tvl_of(schedule::TvlPurpose::kCommands), tvl_of(schedule::TvlPurpose::kDedicated)}});
  if (opened) service_ = std::move(*made);
  return opened;
}

Outcome GeneralServices::add_client(const engine::Tenant& tenant, std::uint32_t selector,
                                    Client client) {
  using management::gsa::GivesBack;
  const auto key = engine::client_key(tenant.id, selector);
  const GivesBack gives_back = client.keep ? GivesBack::kMaybe : GivesBack::kSoon;
  const auto id =
      worker_.run(engine::RegisterClient{*service_, key, client.name, client.buffers, gives_back});
  if (!id) return id.error();
  clients_.emplace(key, Registration{*id, std::move(client)});
  return {};
}

Outcome GeneralServices::set_buffers(const engine::Tenant& tenant, std::uint32_t selector,
                                     std::optional<std::uint32_t> buffers) {
  const auto found = clients_.find(engine::client_key(tenant.id, selector));
  if (found == clients_.end()) return Error{"no such client", ENOENT};
  Outcome set = worker_.run(engine::SetClientBuffers{*service_, found->second.id, buffers});
  if (set) found->second.client.buffers = buffers;
  return set;
}

void GeneralServices::vouch_for(const engine::Tenant& tenant, std::uint32_t selector,
                                const Gid& source) {
  worker_.run(
      engine::VouchForSource{*service_, engine::client_key(tenant.id, selector), source, now()});
}

void GeneralServices::remove_client(const engine::Tenant& tenant, std::uint32_t selector) {
  const auto found = clients_.find(engine::client_key(tenant.id, selector));
  if (found == clients_.end()) return;
  former_[tenant.id].add_totals(worker_.run(engine::RemoveClient{*service_, found->second.id}));
  clients_.erase(found);
}

bool GeneralServices::serve() {
  service_->clear_event();
  for (int i = 0; i < kPerTurn; ++i) {
    const engine::Datagram* datagram = service_->front();
    if (datagram == nullptr) return false;
    if (!deliver(*datagram)) service_->pop();
  }
  return service_->front() != nullptr;
}

/// Gives a datagram to its client. Returns true if the client keeps it.
bool GeneralServices::deliver(const engine::Datagram& datagram) {
  const auto found = clients_.find(service_->key_of(datagram));
  if (found == clients_.end()) return false;
  const Client& client = found->second.client;
  if (client.keep)
    client.keep(service_->take());
  else
    client.receive(datagram);
  return static_cast<bool>(client.keep);
}

bool GeneralServices::send(const engine::Datagram& datagram) {
  const bool taken = service_->send(datagram);
  worker_.wake();
  return taken;
}

void GeneralServices::tick(Time now, const Told& told) {
  auto [seen, changes] = worker_.run(engine::WatchTraffic{*service_, now});
  for (const auto& [tenant, counters] : former_)
    seen.push_back(
        {.id = {}, .key = engine::client_key(tenant, 0), .name = {}, .counters = counters});
  {
    const std::lock_guard lock(seen_changing_);
    seen_ = std::move(seen);
  }
  for (const management::gsa::ShareChange& change : changes)
    if (const auto found = clients_.find(change.key); found != clients_.end()) {
      const Client& client = found->second.client;
      if (client.tell) client.tell(change);
      told(client.name, change);
    }
}

std::vector<management::gsa::ClientView> GeneralServices::clients() const {
  const std::lock_guard lock(seen_changing_);
  return seen_;
}

engine::PoolView GeneralServices::view() {
  constexpr std::size_t kSources = 16;
  return worker_.run(engine::ViewPool{*service_, kSources});
}

Outcome GeneralServices::check(const configuration::GeneralServicesConfig& config,
                               const std::vector<TenantId>& gone) const {
  const management::gsa::Parameters parameters = parameters_of(config);
  if (auto valid = management::gsa::ReceivePool::check(parameters); !valid) return valid;
  std::uint64_t asked = 0;
  for (const auto& [key, registration] : clients_)
    if (std::find(gone.begin(), gone.end(), engine::tenant_of(key)) == gone.end())
      asked += registration.client.buffers.value_or(parameters.buffers_per_client);
  if (asked <= parameters.buffers) return {};
  return Error{"clients have requested " + std::to_string(asked) +
                   " buffers, more than `buffers` = " + std::to_string(parameters.buffers),
               ENOMEM};
}

Outcome GeneralServices::change(const configuration::GeneralServicesConfig& config, Time now) {
  return worker_.run(
      engine::ConfigureSharedQp{*service_, parameters_of(config), config.engine_share, now});
}

}  // namespace softhca::control
