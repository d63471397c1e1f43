// Connection manager of a tenant (InfiniBand specification, volume 1, chapter 12). Sans clock and
// I/O: MADs, calls of the user and `now` go in; MADs go out by Environment, news by User.
//
// Its parts, by file: establishment on the active_side and the passive_side, release,
// service_id_resolution, and address_validation beside them; each finds its connection (matching)
// in the connection_table and hands the input to the state_machine, whose transitions are a table.
//
// A connection begins by connect(), or by a request that the user takes. It belongs to its user
// until destroy(); the manager still keeps it while the peer is to be told, and through time wait.
// A connection that is over by itself (kRejected, kUnreachable, kTimeWaitOver, kSidrReplied) keeps
// no state beyond its event, except for time wait: calls for its id return kUnknown or kWrongState,
// and destroy() is not needed, though allowed. After kTimeWaitOver the id is free.
//
//   active   connect() -> kReplied -> confirm()      ... disconnect() -> kDisconnected ->
//   passive  on_request() -> accept() -> kEstablished ... kDisconnectRequested -> disconnect() ->
//                                                                               kTimeWaitOver
//
// Every operation costs O(log n) in the number of connections, whatever peers send.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "daemon/base/time.hpp"
#include "daemon/base/types.hpp"
#include "daemon/management/cm/active_side.hpp"
#include "daemon/management/cm/address_validation.hpp"
#include "daemon/management/cm/connection_factory.hpp"
#include "daemon/management/cm/connection_table.hpp"
#include "daemon/management/cm/environment.hpp"
#include "daemon/management/cm/mad_sender.hpp"
#include "daemon/management/cm/parameters.hpp"
#include "daemon/management/cm/passive_side.hpp"
#include "daemon/management/cm/release.hpp"
#include "daemon/management/cm/service_id_resolution.hpp"
#include "daemon/management/cm/state_machine.hpp"
#include "daemon/management/cm/transitions.hpp"
#include "daemon/wire/mad.hpp"

namespace softhca::management::cm {

class Manager {
 public:
  /// `ca_guid`: of the tenant's adapter, in the order of the wire's bytes read as one number.
  Manager(Environment& environment, User& user, std::uint64_t ca_guid, const Limits& limits = {});
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  // --- from the wire and the clock
  /// A MAD that an agent of `path.remote` sent to `path.local`, from queue pair `source`. Any bytes
  /// at all; what is not a message for this manager is counted and dropped.
  void receive(std::span<const std::byte> mad, const Path& path, Qpn source, Time now);
  /// To be called when next_deadline() has come (harmless earlier). Does a bounded part at a time:
  /// next_deadline() is still past when more is due.
  void expire(Time now);
  /// kNever when no timer runs.
  Time next_deadline() const { return connections_.next_deadline(); }

  // --- active side
  /// Sends REQ until it is answered.
  Started connect(const ConnectParameters& parameters, Time now);
  /// Sends RTU, after kReplied. At most 224 bytes.
  Result confirm(CommId id, Time now, PrivateData private_data = {});
  /// Sends SIDR_REQ until it is answered.
  Started sidr_request(const SidrParameters& parameters, Time now);

  // --- passive side
  /// Sends REP, for a request that was taken, until RTU comes.
  Result accept(CommId id, const AcceptParameters& parameters, Time now);
  /// The connection is established though no RTU has come: the queue pair received a message.
  /// kEstablished follows, before this returns.
  Result notify_established(CommId id, Time now);
  /// Sends MRA at once: the answer to the request takes longer. Without this call an MRA goes only
  /// in answer to a duplicate of the request.
  Result send_mra(CommId id, std::uint8_t service_timeout, Time now);
  /// Sends SIDR_REP, for a request that was taken. It is remembered for duplicates; for the user
  /// the resolution is over.
  Result sidr_reply(CommId id, const SidrReplyParameters& parameters, Time now);

  // --- both
  /// Sends REJ: passive before RTU came, active before confirm() or after kReplied. No more events.
  Result reject(CommId id, const RejectParameters& parameters, Time now);
  /// Sends DREQ until it is answered, or DREP when a DREQ waits for an answer. At most 220 bytes.
  Result disconnect(CommId id, Time now, PrivateData private_data = {});
  /// The user is done with the connection, in any state: no more events for it. The peer is told
  /// what its state asks for: REJ 4 when nothing came back yet, REJ 28 before it is established,
  /// DREQ, DREP.
  Result destroy(CommId id, Time now);

  // --- what is
  std::optional<State> state(CommId id) const;
  /// None: unknown id, or a service id resolution.
  std::optional<QueuePairAttributes> queue_pair_attributes(CommId id) const;
  std::optional<ConnectionView> view(CommId id) const;
  void for_each(const std::function<void(const ConnectionView&)>& visit) const;
  /// Connections of all kinds, time wait included.
  std::uint32_t size() const { return connections_.size(); }
  /// See Limits.
  std::uint32_t half_open() const { return connections_.half_open(); }
  const Counters& counters() const { return counters_; }
  /// Takes effect for whatever begins from now on.
  void set_limits(const Limits& limits) { local_.limits = limits; }

 private:
  void dispatch(const wire::MadHeader& header, std::span<const std::byte, wire::kMadBytes> mad,
                const Path& path, Time now);
  void receive_drep(const wire::CmDrep& m, const Path& path, Time now);
  void receive_mra(const wire::CmMra& m, const Path& path, Time now);
  void receive_rej(const wire::CmRej& m, const Path& path, Time now);
  /// A message that names both ids.
  template <class Message>
  void receive_for(const Message& m, Input input, const Path& path, Time now,
                   const Details& details);

  LocalEnd local_;
  Counters counters_;
  ConnectionTable connections_;
  MadSender sender_;
  AddressValidation validation_;
  StateMachine machine_;
  ConnectionFactory factory_;
  ActiveSide active_;
  PassiveSide passive_;
  ServiceIdResolution resolution_;
  Release release_;
};

}  // namespace softhca::management::cm
