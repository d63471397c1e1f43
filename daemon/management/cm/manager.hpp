// Connection manager of a tenant (InfiniBand specification, volume 1, chapter 12). Sans clock and
// I/O: MADs, calls of the user and `now` go in; MADs go out by Environment, news by User.
//
// A connection begins by connect(), or by a request that the user takes. It belongs to its user
// until destroy(); the manager still keeps it while the peer is to be told, and through time wait.
// One that is over by itself (kRejected, kUnreachable, kTimeWaitOver, kSidrReplied) keeps no state
// beyond its event but for time wait: calls for its id return kUnknown or kWrongState, and
// destroy() is not needed, though allowed. After kTimeWaitOver the id is free.
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
#include "daemon/management/cm/connection_table.hpp"
#include "daemon/management/cm/environment.hpp"
#include "daemon/management/cm/parameters.hpp"
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
  /// Sends REQ until it is answered. No id: kNoPlace or kTooLong, as `result` says.
  struct Started {
    Result result = Result::kOk;
    CommId id;
  };
  Started connect(const ConnectParameters& parameters, Time now);
  /// RTU, after kReplied. At most 224 bytes.
  Result confirm(CommId id, Time now, PrivateData private_data = {});
  /// SIDR_REQ until it is answered.
  Started sidr_request(const SidrParameters& parameters, Time now);

  // --- passive side
  /// REP, for a request taken, until RTU comes.
  Result accept(CommId id, const AcceptParameters& parameters, Time now);
  /// Established though no RTU has come: the queue pair received a message. kEstablished follows,
  /// before this returns.
  Result notify_established(CommId id, Time now);
  /// MRA at once: the answer to the request takes longer. Without this call one goes in answer to
  /// a duplicate of the request only.
  Result send_mra(CommId id, std::uint8_t service_timeout, Time now);
  /// SIDR_REP, for a question taken. It is remembered for duplicates; for the user the question is
  /// over.
  Result sidr_reply(CommId id, const SidrReplyParameters& parameters, Time now);

  // --- both
  /// REJ: passive before RTU came, active before confirm() or after kReplied. No more events.
  Result reject(CommId id, const RejectParameters& parameters, Time now);
  /// DREQ until it is answered, or DREP when a DREQ waits for an answer. At most 220 bytes.
  Result disconnect(CommId id, Time now, PrivateData private_data = {});
  /// The user has done with it, in any state: no more events for it. The peer is told what its
  /// state asks for: REJ 4 when nothing came back yet, REJ 28 before it is established, DREQ, DREP.
  Result destroy(CommId id, Time now);
  /// Another name from now on (a passive connection gets its lasting one when it is accepted).
  Result set_cookie(CommId id, Cookie cookie);

  // --- what is
  std::optional<State> state(CommId id) const;
  /// None: unknown id, or a service id resolution.
  std::optional<QueuePairAttributes> queue_pair_attributes(CommId id) const;
  std::optional<ConnectionView> view(CommId id) const;
  void for_each(const std::function<void(const ConnectionView&)>& visit) const;
  std::uint32_t size() const {
    return connections_.size();
  }  ///< connections of all kinds, time wait included
  /// See Limits.
  std::uint32_t half_open() const { return connections_.half_open(); }
  const Counters& counters() const { return counters_; }
  /// Takes effect for what begins from now on.
  void set_limits(const Limits& limits) { limits_ = limits; }

 private:
  // machine.cpp
  bool run(Connection& c, Input input, Time now, const Details& details);
  void act(Connection& c, const Transition& t, Time now, const Details& details);
  void set_timer(Connection& c, const Transition& t, State before, Time now, Input input,
                 const Details& details);
  void keep_and_send(Connection& c, const wire::Mad& mad);
  void send(const Path& path, const wire::Mad& mad);
  void keep_dreq(Connection& c);
  bool may_reply_stateless(Time now);
  Connection* make_connection(const Path& path, State state);
  Connection* make_half_open(const Path& path, State state);
  CommId draw_id();
  std::uint64_t draw_transaction_id(CommId id);
  Duration bounded(Duration wait) const;
  Connection* owned(CommId id);
  Result call(CommId id, Input input, Time now, const Details& details = {});

  // manager_receive.cpp
  void dispatch(const wire::MadHeader& header, std::span<const std::byte, wire::kMadBytes> mad,
                const Path& path, Time now);
  void receive_req(const wire::CmReq& m, std::uint64_t transaction_id, const Path& path, Time now);
  void refuse_req(const wire::CmReq& m, std::uint64_t transaction_id, const Path& path,
                  wire::CmRejectReason reason, Time now);
  void offer_req(const wire::CmReq& m, std::uint64_t transaction_id, const Path& path, Time now);
  void receive_rep(const wire::CmRep& m, std::uint64_t transaction_id, const Path& path, Time now);
  bool take_rep(Connection& c, const wire::CmRep& m, const Path& path, Time now);
  void receive_mra(const wire::CmMra& m, const Path& path, Time now);
  void receive_rej(const wire::CmRej& m, const Path& path, Time now);
  void receive_dreq(const wire::CmDreq& m, std::uint64_t transaction_id, const Path& path,
                    Time now);
  void receive_sidr_req(const wire::CmSidrReq& m, std::uint64_t transaction_id, const Path& path,
                        Time now);
  void receive_sidr_rep(const wire::CmSidrRep& m, const Path& path, Time now);
  template <class Message>
  void receive_for(const Message& m, Input input, const Path& path, Time now,
                   const Details& details);
  Connection* find_match(std::uint32_t local, std::uint32_t remote, const Path& path);
  Connection* find_rejected(const wire::CmRej& m, const Path& path);

  Environment& environment_;
  User& user_;
  const std::uint64_t ca_guid_;
  Limits limits_;
  Counters counters_;
  ConnectionTable connections_;
  Time replies_since_{};
  std::uint32_t replies_ = 0;
};

}  // namespace softhca::management::cm
