// SPDX-License-Identifier: Apache-2.0

// The rdma_cm service of one tenant. It replaces the kernel's ucma and cma for unmodified programs.
// Sans clock and I/O: commands of processes, MADs, results of the neighbour resolution and `now` go
// in; MADs, signals and counts go out through Environment.
//
// An identifier belongs to the channel it was made on. Only commands of that channel reach it
// (EINVAL for others, ENOENT for unknown numbers). The content of a command is copied first, then
// checked.
//
// Each command is handled by the part that its file is named after; service.cpp has the table.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "daemon/roce/cm/manager.hpp"
#include "daemon/roce/rdma_cm/addresses/address_binding.hpp"
#include "daemon/roce/rdma_cm/addresses/address_resolution.hpp"
#include "daemon/roce/rdma_cm/addresses/port_spaces.hpp"
#include "daemon/roce/rdma_cm/addresses/route_resolution.hpp"
#include "daemon/roce/rdma_cm/addresses/tenant_gids.hpp"
#include "daemon/roce/rdma_cm/channel_command.hpp"
#include "daemon/roce/rdma_cm/channel_table.hpp"
#include "daemon/roce/rdma_cm/connections/admission_control.hpp"
#include "daemon/roce/rdma_cm/connections/connection_commands.hpp"
#include "daemon/roce/rdma_cm/connections/connection_events.hpp"
#include "daemon/roce/rdma_cm/connections/identifier_listeners.hpp"
#include "daemon/roce/rdma_cm/connections/peer_requests.hpp"
#include "daemon/roce/rdma_cm/event_commands.hpp"
#include "daemon/roce/rdma_cm/event_queues.hpp"
#include "daemon/roce/rdma_cm/identifier_lifecycle.hpp"
#include "daemon/roce/rdma_cm/identifier_options.hpp"
#include "daemon/roce/rdma_cm/identifier_table.hpp"
#include "daemon/roce/rdma_cm/layouts.hpp"
#include "daemon/roce/rdma_cm/multicast_joins.hpp"
#include "daemon/roce/rdma_cm/rdma_cm_environment.hpp"
#include "daemon/roce/rdma_cm/service_core.hpp"
#include "daemon/roce/rdma_cm/views.hpp"

namespace softhca::management::rdma_cm {

class Service : private cm::User {
 public:
  /// Queries the adapter from the environment at once.
  explicit Service(RdmaCmEnvironment& environment, const RdmaCmLimits& limits = {},
                   const cm::CmLimits& manager_limits = {});

  // --- processes
  ChannelId open_channel(const ChannelOwner& owner);
  /// Destroys some identifiers of the channel, and notifies their peers. Returns true if none are
  /// left and the channel is closed, or if it does not exist; otherwise call it again.
  bool close_channel(ChannelId channel, Time now);
  /// A command RDMA_USER_CM_CMD_*.
  struct Command {
    std::uint32_t tag = 0;      ///< of the request
    std::uint32_t command = 0;  ///< its number
    ChannelId other;            ///< MIGRATE_ID: the channel that has the identifier
    Body body;
  };
  /// Runs a command. Returns 0, or the errno value for the process; of `reply` then only the
  /// refusal is defined. The records have the answer before it is given. The first command after a
  /// restart may be one that the earlier adapter has executed: it gets the same answer.
  ///
  /// Signals: RdmaCmEnvironment::signal() reports that the queue of a channel got its first event.
  /// reply.drained reports that this command emptied a queue. MIGRATE_ID may do both: events that
  /// arrive in an empty queue of `channel` signal that channel, and `drained` refers to `other`,
  /// the only queue that it can empty. GET_EVENT never waits: it returns EAGAIN.
  ///
  /// SET_OPTION: the option's value follows the 24 bytes of the command.
  int command(ChannelId channel, const Command& command, ChannelReply& reply, Time now);

  // --- network and timers
  /// Handles a MAD of class communication management, see cm::Manager::receive().
  void receive(std::span<const std::byte> mad, const cm::Path& path, Qpn source, Time now);
  /// Handles the result of RdmaCmEnvironment::resolve(). Results that are no longer awaited are
  /// ignored.
  void resolved(ResolveCookie cookie, bool reachable);
  void expire(Time now);
  Time next_deadline() const;

  // --- the adapter that follows: RdmaCmEnvironment::records() has what it needs

  /// Takes up an object of an earlier adapter by its record. Returns false if the record does not
  /// fit. REQUIRES: those of lower kinds and numbers are restored, and nothing else was called.
  bool restore(cm::StateKind kind, std::uint64_t number, std::span<const std::byte> state,
               Time now);
  /// Call it when all are restored. What does not fit together is ended.
  void end_restoring(Time now);
  /// Retransmits what waits for an answer, which may be lost with the earlier adapter.
  void retransmit(Time now) {
    manager_.retransmit(now);
    record_changes();
  }

  // --- the operator
  /// Handles changed addresses of the tenant: queues ADDR_CHANGE for identifiers that lost theirs.
  void addresses_changed();
  /// Removes the adapter: queues DEVICE_REMOVAL for all identifiers and notifies their peers. The
  /// identifiers then accept only GET_EVENT and DESTROY_ID (others return ENXIO), and CREATE_ID
  /// returns ENODEV. expire() does the work in parts: next_deadline() is in the past until all are
  /// notified.
  void device_removed();
  bool is_removed() const { return lifecycle_.is_removed(); }
  /// Replaces the limits at any time. Existing objects stay, even beyond a new limit; new ones are
  /// refused.
  void set_limits(const RdmaCmLimits& limits, const cm::CmLimits& manager_limits);
  /// Renames a level. Its programs and connections stay admitted.
  void rename_level(const std::string& from, const std::string& to);
  ConnectionAdmission& admission() { return admission_.admission(); }
  const ConnectionAdmission& admission() const { return admission_.admission(); }
  const RdmaCmLimits& limits() const { return limits_; }

  void for_each_connection(const std::function<void(const ConnectionInfo&)>& visit) const;
  void for_each_listener(const std::function<void(const ListenerInfo&)>& visit) const;
  std::size_t identifiers() const { return identifiers_.size(); }
  std::size_t memberships() const { return multicast_.memberships(); }
  std::size_t channels() const { return channels_.size(); }
  std::vector<ChannelId> channel_ids() const { return channels_.ids(); }
  bool has_channel(ChannelId channel) const { return channels_.find(channel) != nullptr; }
  /// True if events wait in the channel.
  bool has_events(ChannelId channel) const;
  std::size_t listeners() const { return listeners_.size(); }
  const cm::Manager& manager() const { return manager_; }

 private:
  cm::Answer on_request(const cm::ConnectionRequest& request) override;
  cm::Answer on_sidr_request(const cm::SidrRequest& request) override;
  void on_over_limit(cm::OverLimit limit) override;
  void on_event(const cm::Event& event) override;
  void record_changes();
  void resume(Identifier& id, Time now);
  int dispatch(std::uint32_t command, const ChannelCommand& with);

  RdmaCmLimits limits_;
  bool in_call_ = false;  ///< that records what resolved() changes
  cm::Manager manager_;
  ChannelTable channels_;
  IdentifierTable identifiers_;
  TenantGids addresses_;
  PortSpaces ports_;
  EventQueues events_;
  const ServiceCore core_;
  AdmissionControl admission_;
  AddressBinding binding_;
  AddressResolution resolution_;
  RouteResolution routes_;
  IdentifierOptions options_;
  IdentifierListeners listeners_;
  MulticastJoins multicast_;
  ConnectionCommands connections_;
  ConnectionEvents connection_events_;
  PeerRequests requests_;
  EventCommands event_commands_;
  IdentifierLifecycle lifecycle_;
};

}  // namespace softhca::management::rdma_cm
