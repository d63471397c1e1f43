// Event channels of rdma_cm, and datagrams of general services.
#include <spdlog/spdlog.h>
#include <sys/epoll.h>

#include <iterator>
#include <utility>

#include "daemon/control/server.hpp"

namespace softhca::control {

void Server::serve_datagrams() { datagrams_left_ = general_services_.serve(); }

/// Its place in the tenant's accounts was that of a session, which is free again.
void Server::add_channel(engine::Tenant& tenant, ChannelRequest request) {
  auto channel = EventChannel::open(connections_, tenant, std::move(request));
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

void Server::end_channels(const engine::Tenant& tenant) {
  channels_.remove_if(
      [&](const ChannelEntry& entry) { return &entry.channel->tenant() == &tenant; });
}

}  // namespace softhca::control
