// SPDX-License-Identifier: Apache-2.0

// A process at the other end of a tenant's socket.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/device/adapter/adapter.hpp"
#include "daemon/device/peer/peer.hpp"
#include "daemon/engine/records/tenant.hpp"
#include "daemon/frontend/unix/sockets/peer_socket.hpp"
#include "daemon/frontend/unix/sockets/unix_socket.hpp"

namespace softhca::control {

class SocketPeer final : public Peer {
 public:
  /// `pidfd`: of the process. Empty for a channel, which asks for no fact that needs it kept.
  SocketPeer(Adapter& adapter, engine::Tenant& tenant, PeerSocket socket,
             const PeerIdentity& identity, UniqueFd pidfd = {})
      : Peer(identity),
        adapter_(adapter),
        tenant_(tenant),
        socket_(std::move(socket)),
        pidfd_(std::move(pidfd)) {}

  /// What the next adapter needs to serve the process. 0: nothing.
  struct KeptPeer {
    KeptId socket = 0;
    KeptId pidfd = 0;
  };
  /// Makes the connection outlive the adapter. Errors: those of Keeping::keep().
  Outcome keep();
  KeptPeer record() const { return {socket_.kept(), kept_pidfd_.id()}; }
  KeptId kept() const override { return socket_.kept(); }
  /// Returns the process that an earlier adapter served. Null: nothing is kept under these numbers,
  /// or it is Adapter::culprit, which is reported.
  static std::unique_ptr<SocketPeer> restore(Adapter& adapter, engine::Tenant& tenant,
                                             const KeptPeer& kept);

  /// Returns the descriptor of the connection. Negative: it has ended.
  int socket() const { return socket_.get(); }
  int pidfd() const { return pidfd_.get(); }
  /// Returns the same process as the peer of a channel. Takes the connection.
  std::unique_ptr<SocketPeer> take_for_channel() {
    return std::make_unique<SocketPeer>(adapter_, tenant_, std::move(socket_), identity());
  }

  std::vector<gid_t> groups() const override;
  std::string cgroup() const override;
  bool is_in_our_pid_namespace() const override;
  bool may_bind_low_ports() const override;

  int make_wake(UniqueFd& wake, Reply& reply) const override;
  int make_events(std::unique_ptr<EventEnd>& events, Reply& reply) const override;
  int make_signal(std::unique_ptr<Signal>& signal, Reply& reply) const override;
  std::vector<bool> are_closed(std::span<const EventEnd* const> ends) const override;
  bool is_stuck() const override { return adapter_.blocking_calls.stuck(tenant_.name); }
  Expected<Offered> offer_memory(const engine::MemoryReach& reach, bool by_proxy) const override;

  std::unique_ptr<EventEnd> restore_events(KeptId kept) const override;
  std::unique_ptr<Signal> restore_signal(KeptId kept) const override;
  Expected<std::shared_ptr<memory::ProcessMemory>> restore_memory(KeptId kept,
                                                                  const engine::MemoryReach& reach,
                                                                  bool by_proxy) const override;

  bool answer(std::uint32_t tag, int error, const Reply& reply) override;
  void end() override { socket_.reset(); }

 private:
  Expected<std::shared_ptr<memory::ProcessMemory>> reach_process(const engine::MemoryReach& reach,
                                                                 PeerSocket socket, bool by_proxy,
                                                                 Duration wait) const;
  PeerSocket restore(KeptId kept) const;

  Adapter& adapter_;
  engine::Tenant& tenant_;
  PeerSocket socket_;
  UniqueFd pidfd_;
  Kept kept_pidfd_;
};

}  // namespace softhca::control
