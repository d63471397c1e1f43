// SPDX-License-Identifier: Apache-2.0

// A channel (daemon/services/tenant_channel.hpp) of a process that is connected to a tenant's
// socket. Runs on the control thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "daemon/configuration/resource_manager/accounts.hpp"
#include "daemon/control_thread/turn.hpp"
#include "daemon/device/peer/channel_request.hpp"
#include "daemon/frontend/unix/sockets/socket_peer.hpp"
#include "daemon/services/tenant_channel.hpp"

namespace softhca::control {

class SocketChannel {
 public:
  /// Opens what serves the channel. Returns 0 with a complete `reply`, or an errno value.
  using Open = std::function<int(const ChannelRequest& request, const Peer& peer, Reply& reply,
                                 std::unique_ptr<TenantChannel>& out)>;
  /// Opens the channel of a request, and answers the request. Returns null if the answer was an
  /// error, or the process has gone.
  static std::unique_ptr<SocketChannel> open(std::unique_ptr<SocketPeer> peer,
                                             ChannelRequest request, const Open& open);

  /// Takes up a channel of an earlier adapter.
  static std::unique_ptr<SocketChannel> restored(std::unique_ptr<SocketPeer> peer,
                                                 configuration::Charge descriptors,
                                                 std::unique_ptr<TenantChannel> channel) {
    return std::unique_ptr<SocketChannel>(
        new SocketChannel(std::move(peer), std::move(descriptors), std::move(channel)));
  }
  /// Returns what restores it: the number of its connection, its tenant, and what the channel
  /// records.
  std::vector<std::byte> state() const { return state_of(*peer_, *channel_); }
  static std::vector<std::byte> state_of(const Peer& peer, const TenantChannel& channel);

  /// Answers waiting requests, a bounded number of them. Returns false if the channel is over.
  bool serve();
  /// Ends the connection, and takes back some of what its process has by it. Returns true if
  /// nothing is left. Otherwise call it again in the tenant's next turn.
  bool end(const Turn& turn) {
    peer_->end();
    return channel_->take_back(turn);
  }

  int socket() const { return peer_->socket(); }
  KeptId kept() const { return peer_->kept(); }
  const engine::Tenant& tenant() const { return channel_->tenant(); }
  TenantChannel::Kind kind() const { return channel_->kind(); }

 private:
  SocketChannel(std::unique_ptr<SocketPeer> peer, configuration::Charge descriptors,
                std::unique_ptr<TenantChannel> channel)
      : peer_(std::move(peer)),
        descriptors_(std::move(descriptors)),
        channel_(std::move(channel)) {}
  bool answer(std::span<const std::byte> record);

  std::unique_ptr<SocketPeer> peer_;
  configuration::Charge descriptors_;
  std::unique_ptr<TenantChannel> channel_;
};

}  // namespace softhca::control
