// Channels of programs, and datagrams of general services and between programs.
#include <spdlog/spdlog.h>
#include <sys/epoll.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/control/adapter/clock.hpp"
#include "daemon/control/server/server.hpp"

namespace softhca::control {

void Server::serve_datagrams() {
  const bool management = general_services_.serve();
  const bool shared = shared_datagrams_.serve();
  datagrams_left_ = management || shared;
}

void Server::tick_datagrams(GeneralServices& services) {
  services.tick(now(), [&](const std::string& client, const management::gsa::ShareChange& change) {
    const auto tenant =
        std::find_if(adapter_.tenants.begin(), adapter_.tenants.end(),
                     [&](const auto& t) { return t->id == engine::tenant_of(change.key); });
    adapter_.journal.add(
        {.kind = change.new_share > change.old_share ? "gsa_share_raised" : "gsa_share_lowered",
         .tenant = tenant == adapter_.tenants.end() ? "" : (*tenant)->name,
         .text = client + " has " + std::to_string(change.new_share) + " receive buffers of " +
                 services.party().name + ", instead of " + std::to_string(change.old_share)});
  });
}

/// Its place in the tenant's accounts was that of a session, which is free again.
void Server::add_channel(engine::Tenant& tenant, ChannelRequest request) {
  const bool of_datagrams = request.operation == abi::Operation::kOpenDatagramClient;
  std::unique_ptr<TenantChannel> channel;
  if (of_datagrams)
    channel = DatagramClient::open(datagram_clients_, tenant, std::move(request));
  else
    channel = EventChannel::open(connections_, tenant, std::move(request));
  if (channel == nullptr) return;
  ChannelEntry& entry = channels_.emplace_back();
  entry.self = std::prev(channels_.end());
  entry.channel = std::move(channel);
  entry.socket = {Watch::Kind::kChannel};
  entry.socket.channel = &entry;
  if (!watch(entry.channel->socket(), &entry.socket)) channels_.erase(entry.self);
}

void Server::serve_channel(ChannelEntry& entry) {
  if (!entry.channel->serve()) channels_.erase(entry.self);
}

void Server::end_event_channels(const engine::Tenant& tenant) {
  channels_.remove_if([&](const ChannelEntry& entry) {
    return &entry.channel->tenant() == &tenant &&
           entry.channel->kind() == TenantChannel::Kind::kEvents;
  });
}

void Server::end_channels(const engine::Tenant& tenant) {
  channels_.remove_if(
      [&](const ChannelEntry& entry) { return &entry.channel->tenant() == &tenant; });
}

}  // namespace softhca::control
