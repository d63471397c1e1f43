// SPDX-License-Identifier: Apache-2.0

// Connection manager of a tenant (InfiniBand specification, volume 1, chapter 12). Sans clock and
// I/O: MADs, calls of the user and `now` go in; MADs go out through Environment, events through
// User.
//
// Its parts, by file: establishment on the active_side and the passive_side, release,
// service_id_resolution, and address_validation. Each finds its connection (matching) in the
// connection_table and passes the input to the state_machine, which has a table of transitions.
//
// A connection begins by connect(), or by a request that the user takes. It belongs to its user
// until destroy(). The manager keeps it longer while the peer must be notified, and through time
// wait. If a connection ends by itself (kRejected, kUnreachable, kTimeWaitOver, kSidrReplied), only
// its time wait outlasts the event. Calls for its id then return kUnknown or kWrongState. destroy()
// is allowed but not needed. After kTimeWaitOver the id is free.
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
#include "daemon/roce/cm/active_side.hpp"
#include "daemon/roce/cm/address_validation.hpp"
#include "daemon/roce/cm/cm_environment.hpp"
#include "daemon/roce/cm/cm_parameters.hpp"
#include "daemon/roce/cm/connection_factory.hpp"
#include "daemon/roce/cm/connection_table.hpp"
#include "daemon/roce/cm/mad_sender.hpp"
#include "daemon/roce/cm/manager_core.hpp"
#include "daemon/roce/cm/passive_side.hpp"
#include "daemon/roce/cm/release.hpp"
#include "daemon/roce/cm/service_id_resolution.hpp"
#include "daemon/roce/cm/state_machine.hpp"
#include "daemon/roce/cm/transitions.hpp"
#include "daemon/roce/wire/mad.hpp"

namespace softhca::management::cm {

class Manager {
 public:
  /// `ca_guid`: GUID of the tenant's adapter, its wire bytes read as one big-endian number.
  Manager(CmEnvironment& environment, User& user, std::uint64_t ca_guid,
          const CmLimits& limits = {});
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  // --- from the wire and the clock
  /// Handles a MAD that an agent of `path.remote` sent to `path.local` from queue pair `source`.
  /// The bytes may be anything; MADs that are not for this manager are counted and dropped.
  void receive(std::span<const std::byte> mad, const Path& path, Qpn source, Time now);
  /// Call this when next_deadline() has come (harmless earlier). It does a bounded part at a time:
  /// next_deadline() stays in the past while more is due.
  void expire(Time now);
  /// Returns kNever if no timer runs.
  Time next_deadline() const { return connections_.next_deadline(); }

  // --- active side
  /// Sends REQ until it is answered.
  Started connect(const ConnectParameters& parameters, Time now);
  /// Sends RTU, after kReplied. The private data has at most 224 bytes.
  Result confirm(CommId id, Time now, PrivateData private_data = {});
  /// Sends SIDR_REQ until it is answered.
  Started sidr_request(const SidrParameters& parameters, Time now);

  // --- passive side
  /// Sends REP until RTU arrives, for a request that was taken.
  Result accept(CommId id, const AcceptParameters& parameters, Time now);
  /// Establishes the connection without an RTU: the queue pair received a message. The user gets
  /// kEstablished before this returns.
  Result notify_established(CommId id, Time now);
  /// Sends MRA at once, because the answer to the request takes longer. Without this call, MRA is
  /// sent only in answer to a duplicate of the request.
  Result send_mra(CommId id, std::uint8_t service_timeout, Time now);
  /// Sends SIDR_REP, for a request that was taken. The manager keeps it for duplicates; for the
  /// user the resolution has ended.
  Result sidr_reply(CommId id, const SidrReplyParameters& parameters, Time now);

  // --- both
  /// Sends REJ: passive before RTU arrived, active before confirm() or after kReplied. No event
  /// follows.
  Result reject(CommId id, const RejectParameters& parameters, Time now);
  /// Sends DREQ until it is answered, or DREP if a DREQ is unanswered. The private data has at most
  /// 220 bytes.
  Result disconnect(CommId id, Time now, PrivateData private_data = {});
  /// Ends the user's interest in the connection, in any state: no event follows. The manager
  /// notifies the peer as the state requires: REJ 4 if no answer came yet, REJ 28 before it is
  /// established, DREQ, or DREP.
  Result destroy(CommId id, Time now);

  // --- queries
  std::optional<State> state(CommId id) const;
  /// Returns nothing for an unknown id or a service id resolution.
  std::optional<QueuePairAttributes> queue_pair_attributes(CommId id) const;
  std::optional<ConnectionView> view(CommId id) const;
  void for_each(const std::function<void(const ConnectionView&)>& visit) const;
  /// Returns the number of connections of all kinds, including time wait.
  std::uint32_t size() const { return connections_.size(); }
  /// See Limits.
  std::uint32_t half_open() const { return connections_.half_open(); }
  const Counters& counters() const { return counters_; }
  // --- the adapter that follows
  /// Records the connections that may have changed since the last call.
  void record_changes() { connections_.record_changes(); }
  /// Takes up a connection of an earlier adapter by its record, with its timers. Returns false if
  /// the record does not fit. REQUIRES: nothing else was called.
  bool restore(std::span<const std::byte> state, Time now);

  /// Takes effect for new connections.
  void set_limits(const CmLimits& limits) { local_.limits = limits; }

 private:
  void dispatch(const wire::MadHeader& header, std::span<const std::byte, wire::kMadBytes> mad,
                const Path& path, Time now);
  void receive_drep(const wire::CmDrep& m, const Path& path, Time now);
  void receive_mra(const wire::CmMra& m, const Path& path, Time now);
  void receive_rej(const wire::CmRej& m, const Path& path, Time now);
  /// Handles a message that names both ids.
  template <class Message>
  void receive_for(const Message& m, Input input, const Path& path, Time now,
                   const Details& details);

  LocalEnd local_;
  Counters counters_;
  ConnectionTable connections_;
  MadSender sender_;
  AddressValidation validation_;
  const ManagerCore core_;
  StateMachine machine_;
  ConnectionFactory factory_;
  ActiveSide active_;
  PassiveSide passive_;
  ServiceIdResolution resolution_;
  Release release_;
};

}  // namespace softhca::management::cm
