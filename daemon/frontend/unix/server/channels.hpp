// SPDX-License-Identifier: Apache-2.0

// Connections of programs that are not sessions: event channels of rdma_cm, and clients of queue
// pairs that several programs share.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "daemon/frontend/unix/server/socket_channel.hpp"
#include "daemon/frontend/unix/server/tenant_loops.hpp"
#include "daemon/services/connections.hpp"
#include "daemon/services/datagram_client.hpp"
#include "daemon/services/datagram_clients.hpp"

namespace softhca::control {

class Channels {
 public:
  Channels(Adapter& adapter, TenantLoops& loops, Connections& connections,
           DatagramClients& datagrams)
      : adapter_(adapter), loops_(loops), connections_(connections), datagrams_(datagrams) {}

  /// Adds a channel. REQUIRES: the connection no longer counts as a session in the tenant's
  /// accounts.
  void add(engine::Tenant& tenant, std::unique_ptr<SocketPeer> peer, ChannelRequest request);
  /// Takes up a channel of an earlier adapter by its record, and serves it. If the record does
  /// not fit, its connection ends. Errors: those of epoll_ctl. REQUIRES: rdma_cm is restored.
  Outcome restore(records::Adopted& found);
  void clear() { entries_.clear(); }

  /// Returns the number of a tenant's channels. Those that take long to end count until they have
  /// ended.
  std::uint64_t count(const engine::Tenant& tenant, TenantChannel::Kind kind) const;
  void end(const engine::Tenant& tenant);
  /// Ends the channels of a kind. An endless turn ends them at once, also those that already end in
  /// turns. No channel refers to the tenant then.
  void end(const engine::Tenant& tenant, TenantChannel::Kind kind, const Turn& turn = Turn());

 private:
  /// The record of a channel.
  struct Kept {
    records::Record record;
    std::vector<std::byte> state;
  };
  struct Entry {
    Kept kept;
    std::shared_ptr<SocketChannel> channel;
    std::list<Entry>::iterator self;
    Watch watch;
    bool ending = false;
  };

  int record(Kept& kept, TenantChannel::Kind kind, std::vector<std::byte> state);
  void serve(Entry& entry);
  Outcome start(Kept kept, std::unique_ptr<SocketChannel> channel);
  void end(Entry& entry, const Turn& turn);
  /// Ends the channels for which which(channel) is true.
  template <class Which>
  void end_if(const Turn& turn, Which&& which);

  Adapter& adapter_;
  TenantLoops& loops_;
  Connections& connections_;
  DatagramClients& datagrams_;
  std::list<Entry> entries_;
};

}  // namespace softhca::control
