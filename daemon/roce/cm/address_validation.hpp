// SPDX-License-Identifier: Apache-2.0

// Address validation, as in RFC 9000, section 8: finds out which peers own the address that their
// messages come from. A request can be sent from a made-up address, and each request offered to a
// program costs a slot, an event and a queue pair. A peer's address is valid if the peer has named
// a random id that was sent to that address.
//
// - A peer is kEstablished once a connection with it was established.
// - Requests of unknown peers are offered at once while they are few. Beyond that rate the manager
//   keeps them and sends a challenge: a DREQ for an unknown id. A connection manager answers with
//   DREP, which names the id (12.10.4 of the specification; Linux does so). The peer is then
//   kAnswered, and its requests are offered. The number of kept requests is bounded; the oldest
//   challenge is dropped first.
//
// All operations cost O(log n), whatever peers send.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "daemon/base/time.hpp"
#include "daemon/base/token_bucket.hpp"
#include "daemon/roce/cm/cm_environment.hpp"
#include "daemon/roce/cm/cm_parameters.hpp"
#include "daemon/roce/cm/mad_sender.hpp"

namespace softhca::management::cm {

/// A bounded set of peers, from which the one noted least recently is dropped.
class RecentPeers {
 public:
  explicit RecentPeers(std::size_t most) : most_(most) {}
  bool contains(const Gid& peer) const { return peers_.contains(peer); }
  /// Adds the peer. Returns its mark, which is Time::min() for a new peer. The reference is valid
  /// until the next call.
  Time& note(const Gid& peer);

 private:
  struct Entry {
    std::uint64_t order = 0;
    Time marked = Time::min();
  };
  std::size_t most_;
  std::uint64_t notes_ = 0;
  std::map<Gid, Entry> peers_;
  std::map<std::uint64_t, Gid> by_order_;
};

class AddressValidation {
 public:
  /// Requests of unknown peers that are offered without a challenge.
  static constexpr Rate kUnasked{.per_second = 8, .burst = 32};
  /// Most requests that wait for an answer: of all peers, and of one peer.
  static constexpr std::size_t kKept = 1024;
  static constexpr std::size_t kKeptOfPeer = 256;

  /// All outlive it.
  AddressValidation(CmEnvironment& environment, User& user, MadSender& sender, Counters& counters);
  AddressValidation(const AddressValidation&) = delete;
  AddressValidation& operator=(const AddressValidation&) = delete;

  Standing standing_of(const Gid& peer) const;
  void note_established(const Gid& peer, Time now);

  /// True if a request of an unknown peer may be offered without a challenge. Counts it.
  bool may_offer_unasked(Time now);
  /// Keeps a REQ or SIDR_REQ until its sender has answered a challenge, and sends the challenge.
  void ask(const Path& path, const wire::Mad& request, Time now);
  /// Handles a DREP that belongs to no connection. Returns the requests that it admits.
  std::vector<wire::Mad> take_answer(const wire::CmDrep& drep, const Path& path);

 private:
  using RequestKey = std::pair<std::uint16_t, std::uint32_t>;  ///< attribute, and the peer's id
  struct Question {
    Path path;
    std::uint32_t id = 0;  ///< random, never 0
    std::uint64_t order = 0;
    Time asked{};
    std::map<RequestKey, wire::Mad> requests;
  };

  void send(Question& question, Time now);
  void drop_oldest();
  void drop_old(Time now);
  Question& question_for(const Path& path, Time now);

  CmEnvironment& environment_;
  User& user_;
  MadSender& sender_;
  Counters& counters_;
  RecentPeers established_;
  RecentPeers answered_;
  TokenBucket unasked_;
  std::map<Gid, Question> questions_;
  std::map<std::uint64_t, Gid> by_order_;
  std::uint64_t orders_ = 0;
  std::size_t kept_ = 0;  ///< requests of all challenges
};

}  // namespace softhca::management::cm
