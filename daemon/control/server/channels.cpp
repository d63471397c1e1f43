#include "daemon/control/server/channels.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/control/services/event_channel.hpp"

namespace softhca::control {

void Channels::add(engine::Tenant& tenant, ChannelRequest request) {
  std::unique_ptr<TenantChannel> channel;
  if (request.operation == abi::Operation::kOpenDatagramClient)
    channel = DatagramClient::open(datagrams_, tenant, std::move(request));
  else
    channel = EventChannel::open(connections_, tenant, std::move(request));
  if (channel == nullptr) return;
  Entry& entry = entries_.emplace_back();
  entry.self = std::prev(entries_.end());
  entry.channel = std::move(channel);
  entry.watch.ready = [this, &entry] {
    if (!entry.channel->serve()) entries_.erase(entry.self);
  };
  if (!loop_.watch(entry.channel->socket(), entry.watch)) entries_.erase(entry.self);
}

std::uint64_t Channels::count(const engine::Tenant& tenant, TenantChannel::Kind kind) const {
  return static_cast<std::uint64_t>(
      std::count_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
        return &entry.channel->tenant() == &tenant && entry.channel->kind() == kind;
      }));
}

void Channels::end(const engine::Tenant& tenant) {
  entries_.remove_if([&](const Entry& entry) { return &entry.channel->tenant() == &tenant; });
}

void Channels::end(const engine::Tenant& tenant, TenantChannel::Kind kind) {
  entries_.remove_if([&](const Entry& entry) {
    return &entry.channel->tenant() == &tenant && entry.channel->kind() == kind;
  });
}

}  // namespace softhca::control
