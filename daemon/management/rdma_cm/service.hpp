// The service of rdma_cm of one tenant: what takes the place of the kernel's ucma and cma for
// unmodified programs. Sans clock and I/O: commands of processes, MADs, answers of the neighbour
// resolution and `now` go in; MADs, signals and counts go out by Environment.
//
// An identifier belongs to the channel it was made on, and only commands of that channel reach it
// (EINVAL for others, ENOENT for numbers of none). What a command holds is copied, then checked.
//
// A request of a peer becomes an identifier at once, which nobody can name until GET_EVENT reports
// it: it then belongs to the channel that asked. It has no uid before it is accepted, and until
// then nothing is reported of it, as with Linux.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/management/cm/manager.hpp"
#include "daemon/management/rdma_cm/admission.hpp"
#include "daemon/management/rdma_cm/channel.hpp"
#include "daemon/management/rdma_cm/environment.hpp"
#include "daemon/management/rdma_cm/identifier_table.hpp"
#include "daemon/management/rdma_cm/layouts.hpp"
#include "daemon/management/rdma_cm/port_table.hpp"

namespace softhca::management::rdma_cm {

/// A connection as operators see it; service id resolutions included.
struct ConnectionInfo {
  IdentifierState state{};
  /// Of the connection manager; none once it is over there.
  std::optional<cm::State> manager_state;
  Role role{};
  SocketAddress local;
  SocketAddress remote;
  PortSpace space{};
  std::uint64_t service_id = 0;
  Qpn qpn;
  pid_t process = 0;  ///< 0: a request that no process has taken
};

/// A listener as operators see it.
struct ListenerInfo {
  SocketAddress local;
  PortSpace space{};
  std::uint32_t backlog = 0;
  std::uint32_t waiting = 0;  ///< requests that no process has taken
  pid_t process = 0;
};

class Service : private cm::User {
 public:
  /// Asks the environment for the adapter at once.
  explicit Service(Environment& environment, const Limits& limits = {},
                   const cm::Limits& manager_limits = {});

  // --- processes
  ChannelId open_channel(const ChannelOwner& owner);
  /// Destroys all its identifiers, with what their peers must be told. Unknown ones are ignored.
  void close_channel(ChannelId channel, Time now);
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
  /// The tenant's addresses are others now: ADDR_CHANGE for identifiers whose own is gone.
  void addresses_changed();
  /// The adapter goes away: DEVICE_REMOVAL for all; peers are told, and identifiers good for
  /// GET_EVENT and DESTROY_ID only (else ENXIO). CREATE_ID: ENODEV.
  void device_removed(Time now);
  bool is_removed() const { return removed_; }
  /// At any time. What is there stays, though it be more; new ones are refused.
  void set_limits(const Limits& limits, const cm::Limits& manager_limits);
  Admission& admission() { return admission_; }
  const Admission& admission() const { return admission_; }
  const Limits& limits() const { return limits_; }

  void for_each_connection(const std::function<void(const ConnectionInfo&)>& visit) const;
  void for_each_listener(const std::function<void(const ListenerInfo&)>& visit) const;
  std::size_t identifiers() const { return identifiers_.size(); }
  std::size_t memberships() const { return memberships_.size(); }
  std::size_t channels() const { return channels_.size(); }
  std::size_t listeners() const { return listener_count_; }
  const cm::Manager& manager() const { return manager_; }

 private:
  using Body = std::span<const std::byte>;
  using ListenerKey = std::pair<PortSpace, std::uint16_t>;

  // Commands (service_*.cpp).
  int create_id(Channel& channel, Body body, Reply& reply);
  int destroy_id(Channel& channel, Body body, Reply& reply);
  int get_event(Channel& channel, Reply& reply);
  int migrate_id(Channel& channel, ChannelId other, Body body, Reply& reply);
  int bind_ip(Channel& channel, Body body);
  int resolve_ip(Channel& channel, Body body);
  int resolve_route(Channel& channel, Body body);
  int query_route(Channel& channel, Body body, Reply& reply);
  int set_option(Channel& channel, Body body);
  int listen(Channel& channel, Body body);
  int connect(Channel& channel, Body body);
  int accept(Channel& channel, Body body);
  int reject(Channel& channel, Body body);
  int disconnect(Channel& channel, Body body);
  int notify(Channel& channel, Body body);
  int init_qp_attr(Channel& channel, Body body, Reply& reply);
  int join_multicast(Channel& channel, Body body, Reply& reply);
  int leave_multicast(Channel& channel, Body body, Reply& reply);
  int dispatch(Channel& channel, std::uint32_t command, ChannelId other, Body body, Reply& reply);

  // The identifier a command names: 0, or why not.
  int find(const Channel& channel, std::uint32_t number, Identifier*& found);
  /// Likewise, if it is bound to an address.
  int find_bound(const Channel& channel, std::uint32_t number, Identifier*& found);

  // Life of identifiers (service.cpp).
  void destroy(Identifier& id);
  void leave_listening(Identifier& id);
  void end_connection(Identifier& id);
  /// The connection manager knows it no longer.
  void forget_connection(Identifier& id);
  /// Nothing of the tenant's guarantees is for it any more.
  void give_back_admission(Identifier& id);
  /// Its peer has answered, or it is over.
  void close_half(Identifier& id);
  Channel* channel_of(const Identifier& id);
  pid_t process_of(const Identifier& id) const;

  // Addresses (service_address.cpp).
  const LocalAddress* own_address(const Gid& gid) const;
  /// What a loopback or "any" address of a family stands for.
  const LocalAddress* loopback_address(const SocketAddress& address) const;
  int bind(Identifier& id, const ChannelOwner& owner, SocketAddress address);
  int take_port(Identifier& id, const ChannelOwner& owner);
  static PortTable::Claim claim_of(const Identifier& id);
  /// The port table is told the identifier's address and options.
  void claim_changed(const Identifier& id);
  /// Sets id.chosen_source for id.remote, which becomes an address of the tenant's if it stands
  /// for one: 0, or why there is none.
  int choose_route(Identifier& id);
  void address_found(Identifier& id);
  void address_not_found(Identifier& id);
  void stop_resolving(Identifier& id);
  Route route_to(const Identifier& id) const;
  cm::Path path_of(const Identifier& id) const;

  // Options (service_options.cpp).
  int set_id_option(Identifier& id, std::uint32_t name, Body value);
  int set_ib_path(Identifier& id, Body value);

  // Connections (service_connect.cpp, service_accept.cpp).
  int connect_queue_pair(Identifier& id, const rdma_ucm_conn_param& parameters);
  int ask_service(Identifier& id, const rdma_ucm_conn_param& parameters);
  int confirm_reply(Identifier& id);
  int accept_request(Identifier& id, const rdma_ucm_conn_param& parameters);
  int refuse_request(Identifier& id, Body private_data, wire::CmRejectReason reason);
  int begin_connection(Identifier& id, const cm::Started& started);
  bool rate_allows();
  int carry(Identifier& id);
  void established(Identifier& id);

  // Queue pair attributes (service_query.cpp).
  ib_uverbs_ah_attr address_vector(const cm::Path& path, std::uint8_t sl) const;
  void init_attributes(const Identifier& id, ib_uverbs_qp_attr& to) const;
  bool connected_attributes(const Identifier& id, ib_uverbs_qp_attr& to) const;

  // What the connection manager tells (service_request.cpp, service_events.cpp).
  cm::Answer on_request(const cm::Request& request) override;
  cm::Answer on_sidr_request(const cm::SidrRequest& request) override;
  void on_over_limit(cm::OverLimit limit) override;
  void on_event(const cm::Event& event) override;
  void replied(Identifier& id, const wire::CmRep& rep);
  void rejected(Identifier& id, const wire::CmRej& rej);
  void sidr_replied(Identifier& id, const wire::CmSidrRep& rep);
  void unreachable(Identifier& id, cm::State state);
  void disconnected(Identifier& id, int status);

  /// What a peer asks for, and what came of looking for who serves it.
  struct Inquiry;
  /// Null: `why` says what to answer.
  Identifier* find_listener(const Inquiry& inquiry, cm::Answer& why);
  Identifier* admit(const Inquiry& inquiry, cm::Answer& why);
  bool carry(const std::string& level, const Gid& peer, cm::Answer& why);
  Identifier& make_request(const Inquiry& inquiry, const Identifier& listener);
  void report_request(Identifier& listener, const Identifier& request,
                      rdma_ucm_event_resp response);

  // Queues of events (service_channel.cpp).
  void queue(Identifier& id, EventType type, int status = 0);
  void queue(Identifier& id, rdma_ucm_event_resp response);
  void push(Channel& channel, Identifier& owner, QueuedEvent event);
  void drop_events(Identifier& id);
  bool takes_events(const Identifier& id) const;

  Environment& environment_;
  Limits limits_;
  Admission admission_;
  Time now_;  ///< of the call under way
  std::unordered_map<ChannelId, Channel> channels_;
  IdentifierTable identifiers_;
  std::unordered_map<MembershipNumber, Membership> memberships_;
  std::uint32_t membership_numbers_ = 0;
  std::uint64_t events_made_ = 0;
  PortTable tcp_ports_;
  PortTable udp_ports_;
  PortTable ipoib_ports_;
  PortTable& ports_of(PortSpace space);
  std::map<ListenerKey, std::vector<IdentifierNumber>> listeners_;
  std::size_t listener_count_ = 0;
  /// Identifiers that wait for a neighbour.
  std::set<std::pair<Time, IdentifierNumber>> resolving_;
  Time rate_full_at_;     ///< when as many connects as a second allows are free again
  bool removed_ = false;  ///< the adapter is gone
  cm::Manager manager_;
};

}  // namespace softhca::management::rdma_cm
