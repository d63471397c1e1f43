// SPDX-License-Identifier: Apache-2.0

#include "tests/fuzz/requests/services.hpp"

#include <algorithm>
#include <optional>

namespace softhca::fuzz {
namespace {

using management::gsa::ClientKey;
using management::gsa::Parameters;

constexpr std::uint32_t kMostBuffers = 32;

Parameters any_parameters(Input& input) {
  Parameters parameters;
  parameters.buffers = 1 + input.below(kMostBuffers + 4);
  parameters.buffers_per_client = 1 + input.byte() % 4u;
  const std::uint8_t choice = input.byte();
  if ((choice & 1) != 0) parameters.low_threshold = input.byte() % 8u;
  if ((choice & 2) != 0) parameters.high_threshold = input.byte() % 16u;
  if ((choice & 4) != 0) parameters.sources.part = 1.0;
  if ((choice & 8) != 0) parameters.sources.rate = {.per_second = 10, .burst = 2};
  if ((choice & 16) != 0) parameters.sources.new_rate = {.per_second = 10, .burst = 2};
  if ((choice & 32) != 0) parameters.sources.probation = std::chrono::milliseconds(1);
  if ((choice & 64) != 0) parameters.sources.forget_after = std::chrono::milliseconds(10);
  parameters.adjustment.window = std::chrono::milliseconds(1 + input.byte() % 16);
  parameters.adjustment.raise_after = input.byte() % 4u;
  parameters.adjustment.lower_after = 1 + input.byte() % 4u;
  return parameters;
}

}  // namespace

Services::Service* Services::any_open() {
  std::vector<Service*> open;
  for (Service& service : services_)
    if (service.qp) open.push_back(&service);
  return open.empty() ? nullptr : open[common_.input.byte() % open.size()];
}

void Services::open() {
  if (opened_ == services_.size()) return;
  Service& service = services_[opened_];
  Input& input = common_.input;
  service.tenant.id = TenantId(static_cast<std::uint16_t>(Bench::kTenants + opened_));
  service.tenant.name = "service";
  const bool for_programs = opened_++ == 1;
  engine::SharedQp::Options options{
      .queue_pair = for_programs ? engine::kProgramQueuePair : engine::kManagementQueuePair,
      .size = {.buffers = kMostBuffers, .clients = 4, .sources = 8},
      .parameters = {.buffers = 16, .buffers_per_client = 2}};
  auto made = engine::SharedQp::make(service.tenant, options, common_.bench.now());
  require(static_cast<bool>(made), "a shared queue pair can be made");
  (*made)->set_engine_share(input.flag() ? 0.1 : 1.0);
  const auto tvl_of = [&](schedule::TvlPurpose purpose) {
    const bool dedicated = purpose == schedule::TvlPurpose::kDedicated;
    return schedule::TvlTerms{.tenant = service.tenant.id,
                              .purpose = purpose,
                              .weight = 1,
                              .max_kick_list = 2 * Bench::kPcbsOfService,
                              .execution_guaranteed = dedicated ? Bench::kPcbsOfService : 0,
                              .completion_guaranteed = dedicated ? 2 * Bench::kPcbsOfService : 0,
                              .may_share = !dedicated};
  };
  const Outcome opened = common_.bench.ask(engine::OpenSharedQp{
      .service = **made,
      .tenant = service.tenant,
      .group = {.tenant = service.tenant.id,
                .guaranteed = Bench::kPcbsOfService,
                .may_share = false},
      .tvls = {tvl_of(schedule::TvlPurpose::kCommands), tvl_of(schedule::TvlPurpose::kDedicated)}});
  if (opened) service.qp = std::move(*made);
}

void Services::close() {
  Service* const service = any_open();
  if (service == nullptr) return;
  common_.bench.ask(engine::CloseSharedQp{*service->qp});
  service->qp = nullptr;
  service->clients.clear();
  service->kept.clear();
}

void Services::configure() {
  Service* const service = any_open();
  if (service == nullptr) return;
  const Parameters parameters = any_parameters(common_.input);
  (void)common_.bench.ask(
      engine::ConfigureSharedQp{.service = *service->qp,
                                .parameters = parameters,
                                .engine_share = (1 + common_.input.byte() % 4) / 4.0,
                                .now = common_.bench.now()});
}

/// The key of a client of a tenant that there is, or was.
ClientKey Services::any_key(const Service& service) {
  const std::uint8_t choice = common_.input.byte();
  const bool for_programs = service.qp->endpoint().qp.qpn == engine::kProgramQueuePair.qpn;
  const std::uint32_t selector = 1 + choice / 4 % 3u;
  return engine::client_key(
      TenantId(choice % Bench::kTenants),
      for_programs ? selector
                   : engine::class_selector(static_cast<std::uint8_t>(selector), choice >= 128));
}

void Services::register_client() {
  Service* const service = any_open();
  if (service == nullptr) return;
  const std::uint8_t choice = common_.input.byte();
  std::optional<std::uint32_t> buffers;
  if ((choice & 1) != 0) buffers = choice / 4 % 8u;
  const auto made = common_.bench.ask(
      engine::RegisterClient{.service = *service->qp,
                             .key = any_key(*service),
                             .name = "client",
                             .buffers = buffers,
                             .gives_back = (choice & 2) != 0 ? management::gsa::GivesBack::kMaybe
                                                             : management::gsa::GivesBack::kSoon});
  if (made) service->clients.push_back(*made);
}

void Services::set_buffers() {
  Service* const service = any_open();
  if (service == nullptr || service->clients.empty()) return;
  std::optional<std::uint32_t> buffers;
  if (common_.input.flag()) buffers = common_.input.byte() % 8u;
  const auto client = service->clients[common_.input.byte() % service->clients.size()];
  (void)common_.bench.ask(engine::SetClientBuffers{*service->qp, client, buffers});
}

void Services::vouch() {
  Service* const service = any_open();
  if (service == nullptr) return;
  common_.bench.ask(engine::VouchForSource{.service = *service->qp,
                                           .client = any_key(*service),
                                           .source = any_address(common_.input),
                                           .now = common_.bench.now()});
}

void Services::remove_client() {
  Service* const service = any_open();
  if (service == nullptr || service->clients.empty()) return;
  const std::size_t i = common_.input.byte() % service->clients.size();
  (void)common_.bench.ask(engine::RemoveClient{*service->qp, service->clients[i]});
  service->clients.erase(service->clients.begin() + static_cast<std::ptrdiff_t>(i));
}

void Services::watch_traffic() {
  if (Service* const service = any_open())
    (void)common_.bench.ask(engine::WatchTraffic{*service->qp, common_.bench.now()});
}

void Services::view() {
  if (Service* const service = any_open())
    (void)common_.bench.ask(
        engine::ViewPool{.service = *service->qp, .most_sources = common_.input.byte() % 16u});
}

void Services::send() {
  Service* const service = any_open();
  const engine::Tenant* const tenant = tenants_.any();
  if (service == nullptr || tenant == nullptr) return;
  Input& input = common_.input;
  const auto path = tenants_.any_path(*tenant);
  if (!path || path->destination.is_multicast()) return;
  engine::Datagram datagram;
  datagram.path = *path;
  const std::uint8_t choice = input.byte();
  datagram.peer = (choice & 1) != 0 ? Qpn(common_.names.queue_pairs.any(input) & 0xffffff)
                                    : service->qp->endpoint().qp.qpn;
  datagram.qkey = service->qp->endpoint().qp.qkey;
  datagram.tenant = tenant->id;
  datagram.gives_way = (choice & 2) != 0;
  datagram.length = static_cast<std::uint16_t>((choice & 4) != 0 ? input.byte() : 256);
  const std::byte selector{static_cast<std::uint8_t>(1 + (choice >> 6))};
  datagram.payload[engine::kClassOffset] = datagram.payload[3] = selector;
  (void)service->qp->send(datagram);
}

void Services::receive() {
  Service* const service = any_open();
  if (service == nullptr) return;
  const std::uint8_t choice = common_.input.byte();
  service->qp->clear_event();
  for (std::uint8_t n = choice % 8; n > 0 && service->qp->front() != nullptr; --n) {
    (void)service->qp->key_of(*service->qp->front());
    if ((choice & 8) != 0)
      service->kept.push_back(service->qp->take());
    else
      service->qp->pop();
  }
  if ((choice & 16) == 0) return;
  for (const std::uint32_t buffer : service->kept) service->qp->release(buffer);
  service->kept.clear();
}

void Services::end() {
  while (any_open() != nullptr) close();
}

}  // namespace softhca::fuzz
