// SPDX-License-Identifier: Apache-2.0

#include "daemon/services/datagram_clients.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "daemon/control_thread/process_name.hpp"
#include "daemon/device/adapter/control_clock.hpp"
#include "daemon/roce/wire/mad.hpp"

namespace softhca::control {
namespace {

std::optional<std::uint32_t> number_of(std::uint32_t buffers) {
  return buffers == 0 ? std::nullopt : std::optional(buffers);
}

/// True if programs may not register for a class. Subnet management uses queue pair 0. A program's
/// messages in the class of connection management would pass for the daemon's.
bool is_reserved(std::uint32_t management_class) {
  using wire::ManagementClass;
  return std::ranges::any_of(
      std::to_array({ManagementClass::kSubnetLid, ManagementClass::kSubnetDirected,
                     ManagementClass::kCommunication}),
      [&](auto reserved) { return management_class == static_cast<std::uint32_t>(reserved); });
}

int check_class(const abi::OpenDatagramClientRequest& request) {
  if (request.selector == 0 || request.selector > 0xff) return EINVAL;
  return is_reserved(request.selector) ? EACCES : 0;
}

}  // namespace

// --- a registration

DatagramClients::Registration::~Registration() {
  std::erase(queue_.clients, this);
  if (entered_) queue_.service.remove_client(tenant_, selector_);
}

bool DatagramClients::Registration::is_of_class() const {
  return &queue_ == &clients_.general_services_;
}

std::uint32_t DatagramClients::Registration::asked() const {
  return number_of(buffers_).value_or(clients_.settings(queue_).buffers_per_client);
}

int DatagramClients::Registration::set_buffers(std::uint32_t buffers) {
  if (const int error = charge()) return error;
  if (const Answer room = clients_.check_room(*this, buffers); room.error != 0) return room.error;
  const Outcome set = queue_.service.set_buffers(tenant_, selector_, number_of(buffers));
  if (!set) return set.error().code;
  buffers_ = buffers;
  return 0;
}

// --- admission

int DatagramClients::add(const engine::Tenant& tenant, pid_t process,
                         const abi::OpenDatagramClientRequest& request,
                         GeneralServices::Client client, std::unique_ptr<Registration>& out,
                         bool again) {
  const bool of_class = request.qpn == abi::kManagementQpn;
  const bool responses = (request.flags & abi::kDatagramResponses) != 0;
  if ((!of_class && request.qpn != abi::kProgramQpn) || (responses && !of_class) ||
      (request.flags & ~abi::kDatagramResponses) != 0)
    return EINVAL;
  Queue& queue = of_class ? general_services_ : shared_datagrams_;
  const std::uint32_t selector =
      of_class ? engine::class_selector(static_cast<std::uint8_t>(request.selector), responses)
               : request.selector;
  if (const int error = of_class ? check_class(request) : 0) return error;
  if (tenant.control.leaving) return ENODEV;
  if (const int error = again ? 0 : charge(queue, tenant)) return error;
  std::unique_ptr<Registration> made(
      new Registration(*this, queue, tenant, selector, request.buffers));
  client.name = printable(name_of_process(process)) + "[" + std::to_string(process) + "]";
  client.buffers = number_of(request.buffers);
  const std::string name = client.name;
  if (const Answer answer = enter(*made, std::move(client)); answer.error != 0) {
    complain(*made, process, name, answer.why);
    return answer.error;
  }
  out = std::move(made);
  return 0;
}

DatagramClients::Answer DatagramClients::enter(Registration& made, GeneralServices::Client client) {
  if (Answer number = check_number(made.queue_, made.tenant_); number.error != 0) return number;
  if (Answer room = check_room(made, made.buffers_); room.error != 0) return room;
  const Outcome added = made.queue_.service.add_client(made.tenant_, made.selector_, client);
  if (!added)
    return {added.error().code == EEXIST ? EADDRINUSE : added.error().code, added.error().message};
  made.entered_ = true;
  made.queue_.clients.push_back(&made);
  return {};
}

DatagramClients::Answer DatagramClients::check_number(const Queue& queue,
                                                      const engine::Tenant& tenant) const {
  const std::uint32_t most = settings(queue).fixed.tenant_clients;
  const auto has = std::ranges::count_if(
      queue.clients, [&](const Registration* other) { return &other->tenant_ == &tenant; });
  if (has >= most)
    return {EDQUOT, "the tenant has " + std::to_string(has) + " clients, and may have " +
                        std::to_string(most) + "; end some"};
  if (queue.clients.size() >= configuration::kMostPrograms)
    return {ENOSPC, "all tenants together have " + std::to_string(configuration::kMostPrograms) +
                        " clients, the most possible"};
  return {};
}

/// Checks the room for `buffers`. Half of general services is left to the daemon's own clients,
/// since tenants may be added.
DatagramClients::Answer DatagramClients::check_room(const Registration& but,
                                                    std::uint32_t buffers) const {
  const Queue& queue = but.queue_;
  const configuration::GeneralServicesConfig& limits = settings(queue);
  const std::uint64_t wanted = number_of(buffers).value_or(limits.buffers_per_client);
  std::uint64_t of_tenant = wanted, of_all = wanted;
  for (const Registration* other : queue.clients) {
    if (other == &but) continue;
    of_all += other->asked();
    if (&other->tenant_ == &but.tenant_) of_tenant += other->asked();
  }
  if (const std::uint32_t most = configuration::tenant_buffers(limits); of_tenant > most)
    return {ENOBUFS, "the tenant would need " + std::to_string(of_tenant) +
                         " buffers, and may have " + std::to_string(most) +
                         " by `buffers` and `buffers_per_client`; ask for fewer"};
  const std::uint32_t most = limits.buffers / (&queue == &general_services_ ? 2 : 1);
  if (of_all > most)
    return {ENOMEM, "all programs together would need " + std::to_string(of_all) +
                        " buffers, `buffers` allows " + std::to_string(most) +
                        "; raise it or ask for fewer"};
  return {};
}

int DatagramClients::charge(Queue& queue, const engine::Tenant& tenant) {
  const Time at = now();
  const configuration::FixedServicesParameters& fixed = settings(queue).fixed;
  const Rate rate{fixed.send_rate, fixed.send_burst};
  TokenBucket& bucket = queue.usage[tenant.id].requests;
  if (!(bucket.rate() == rate)) bucket.set(rate, at);
  if (bucket.ready_at() > at) return EBUSY;
  bucket.charge(1, at);
  return 0;
}

void DatagramClients::complain(const Registration& registration, pid_t process,
                               const std::string& client, const std::string& why) {
  if (!registration.queue_.usage[registration.tenant_.id].complaints.allows(now())) return;
  adapter_.journal.add({.kind = "gsa_client_refused",
                        .tenant = registration.tenant_.name,
                        .text = client + ": " + why,
                        .process = static_cast<std::uint32_t>(process)});
}

}  // namespace softhca::control
