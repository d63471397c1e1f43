// The rdma_cm service of one tenant, which takes the place of the kernel's ucma and cma for
// unmodified programs. Sans clock and I/O: commands of processes, MADs, answers of the neighbour
// resolution and `now` go in; MADs, signals and counts go out by Environment.
//
// An identifier belongs to the channel it was made on, and only commands of that channel reach it
// (EINVAL for others, ENOENT for numbers of none). What a command holds is copied, then checked.
//
// Each command is carried out by the part that its file is named after; service.cpp has the table.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "daemon/management/cm/manager.hpp"
#include "daemon/management/rdma_cm/address_binding.hpp"
#include "daemon/management/rdma_cm/address_resolution.hpp"
#include "daemon/management/rdma_cm/admission_control.hpp"
#include "daemon/management/rdma_cm/channel_table.hpp"
#include "daemon/management/rdma_cm/command.hpp"
#include "daemon/management/rdma_cm/connection_commands.hpp"
#include "daemon/management/rdma_cm/connection_events.hpp"
#include "daemon/management/rdma_cm/environment.hpp"
#include "daemon/management/rdma_cm/event_commands.hpp"
#include "daemon/management/rdma_cm/event_queues.hpp"
#include "daemon/management/rdma_cm/identifier_lifecycle.hpp"
#include "daemon/management/rdma_cm/identifier_table.hpp"
#include "daemon/management/rdma_cm/layouts.hpp"
#include "daemon/management/rdma_cm/listeners.hpp"
#include "daemon/management/rdma_cm/local_addresses.hpp"
#include "daemon/management/rdma_cm/multicast.hpp"
#include "daemon/management/rdma_cm/options.hpp"
#include "daemon/management/rdma_cm/peer_requests.hpp"
#include "daemon/management/rdma_cm/port_spaces.hpp"
#include "daemon/management/rdma_cm/route_resolution.hpp"
#include "daemon/management/rdma_cm/views.hpp"

namespace softhca::management::rdma_cm {

class Service : private cm::User {
 public:
  /// Asks the environment for the adapter at once.
  explicit Service(Environment& environment, const Limits& limits = {},
                   const cm::Limits& manager_limits = {});

  // --- processes
  ChannelId open_channel(const ChannelOwner& owner);
  /// Destroys some identifiers of the channel, and tells their peers what they must hear. True:
  /// there are none left, or no such channel, and it is closed; else it is to be called again.
  bool close_channel(ChannelId channel, Time now);
  /// A command RDMA_USER_CM_CMD_* with its body. 0, or the errno value for the process, which
  /// leaves `reply` without meaning. `other` is for MIGRATE_ID: the channel where the identifier
  /// is.
  ///
  /// Signals: Environment::signal() tells of a channel whose queue has got its first event, and
  /// reply.drained that a queue has become empty by this command. MIGRATE_ID may do both: events
  /// that come into an empty queue of `channel` signal that channel, and `drained` is about
  /// `other`, the only one that can have become empty. GET_EVENT never waits: EAGAIN.
  ///
  /// SET_OPTION: the option's value follows the command's 24 bytes.
  int command(ChannelId channel, std::uint32_t command, ChannelId other,
              std::span<const std::byte> body, Reply& reply, Time now);

  // --- the rest of the world
  /// A MAD of class communication management, see cm::Manager::receive().
  void receive(std::span<const std::byte> mad, const cm::Path& path, Qpn source, Time now);
  /// Answer to Environment::resolve(). Cookies that nobody waits for are ignored.
  void resolved(ResolveCookie cookie, bool reachable);
  void expire(Time now);
  Time next_deadline() const;

  // --- the operator
  /// The tenant's addresses have changed: ADDR_CHANGE for identifiers whose own is gone.
  void addresses_changed();
  /// The adapter goes away: DEVICE_REMOVAL for all; peers are told, and identifiers good for
  /// GET_EVENT and DESTROY_ID only (else ENXIO). CREATE_ID: ENODEV. expire() does it, some at a
  /// time: next_deadline() is past until all have been told.
  void device_removed();
  bool is_removed() const { return lifecycle_.is_removed(); }
  /// May be called at any time. What exists stays, even beyond a new limit; new ones are refused.
  void set_limits(const Limits& limits, const cm::Limits& manager_limits);
  /// Programs and connections of the level keep what carries them.
  void rename_level(const std::string& from, const std::string& to);
  Admission& admission() { return admission_.admission(); }
  const Admission& admission() const { return admission_.admission(); }
  const Limits& limits() const { return limits_; }

  void for_each_connection(const std::function<void(const ConnectionInfo&)>& visit) const;
  void for_each_listener(const std::function<void(const ListenerInfo&)>& visit) const;
  std::size_t identifiers() const { return identifiers_.size(); }
  std::size_t memberships() const { return multicast_.memberships(); }
  std::size_t channels() const { return channels_.size(); }
  std::size_t listeners() const { return listeners_.size(); }
  const cm::Manager& manager() const { return manager_; }

 private:
  cm::Answer on_request(const cm::Request& request) override;
  cm::Answer on_sidr_request(const cm::SidrRequest& request) override;
  void on_over_limit(cm::OverLimit limit) override;
  void on_event(const cm::Event& event) override;
  int dispatch(std::uint32_t command, const Command& with);

  Limits limits_;
  cm::Manager manager_;
  ChannelTable channels_;
  IdentifierTable identifiers_;
  LocalAddresses addresses_;
  PortSpaces ports_;
  EventQueues events_;
  AdmissionControl admission_;
  AddressBinding binding_;
  AddressResolution resolution_;
  RouteResolution routes_;
  Options options_;
  Listeners listeners_;
  Multicast multicast_;
  ConnectionCommands connections_;
  ConnectionEvents connection_events_;
  PeerRequests requests_;
  EventCommands event_commands_;
  IdentifierLifecycle lifecycle_;
};

}  // namespace softhca::management::rdma_cm
