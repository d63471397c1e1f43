// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/server/channels.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/services/event_channel.hpp"

namespace softhca::control {

void Channels::add(engine::Tenant& tenant, std::unique_ptr<SocketPeer> peer,
                   ChannelRequest request) {
  const auto open = [&](const ChannelRequest& asked, const Peer& of, Reply& reply,
                        std::unique_ptr<TenantChannel>& out) {
    return asked.operation == abi::Operation::kOpenDatagramClient
               ? DatagramClient::open(datagrams_, tenant, asked, of, reply, out)
               : EventChannel::open(connections_, tenant, asked, of, reply, out);
  };
  auto channel = SocketChannel::open(std::move(peer), std::move(request), open);
  if (channel == nullptr) return;
  Entry& entry = entries_.emplace_back();
  entry.self = std::prev(entries_.end());
  entry.channel = std::move(channel);
  entry.watch.ready = [this, &entry] {
    if (!entry.channel->serve()) end(entry, Turn());
  };
  if (!loops_.watch(tenant, entry.channel->socket(), entry.watch)) end(entry, Turn());
}

/// Ends a channel. Work for which the rest of `turn` is too short is done in later turns of the
/// tenant.
void Channels::end(Entry& entry, const Turn& turn) {
  const std::shared_ptr<SocketChannel> channel = entry.channel;
  if (!std::exchange(entry.ending, true))
    loops_.unwatch(channel->tenant(), channel->socket());
  else if (!turn.is_endless())
    return;
  if (!turn.is_over() && channel->end(turn)) return void(entries_.erase(entry.self));
  loops_.add_work(channel->tenant(), [this, left = std::weak_ptr(channel), &entry] {
    const auto ending = left.lock();
    if (ending == nullptr) return false;  // an endless turn has ended it
    const bool over = ending->end(Turn());
    if (over) entries_.erase(entry.self);
    return !over;
  });
}

template <class Which>
void Channels::end_if(const Turn& turn, Which&& which) {
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    Entry& ending = *entry++;
    if (which(*ending.channel)) end(ending, turn);
  }
}

std::uint64_t Channels::count(const engine::Tenant& tenant, TenantChannel::Kind kind) const {
  return static_cast<std::uint64_t>(
      std::count_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
        return &entry.channel->tenant() == &tenant && entry.channel->kind() == kind;
      }));
}

void Channels::end(const engine::Tenant& tenant) {
  end_if(Turn(), [&](const SocketChannel& channel) { return &channel.tenant() == &tenant; });
}

void Channels::end(const engine::Tenant& tenant, TenantChannel::Kind kind, const Turn& turn) {
  end_if(turn, [&](const SocketChannel& channel) {
    return &channel.tenant() == &tenant && channel.kind() == kind;
  });
}

}  // namespace softhca::control
