// Which peers are at the address that their messages come from (address validation, as in RFC 9000,
// section 8). Anyone can send a request from a made-up address, and each one that is offered to a
// program costs a place, an event and a queue pair. A peer whose address is validated has named a
// random id that was sent to that address:
//   - A peer is kEstablished once a connection with it was established.
//   - Requests of unknown peers are offered without more ado while they are few. Beyond that rate
//     they are kept, and their sender gets a DREQ for an id that it does not know. A connection
//     manager answers with DREP, which names the id (12.10.4 of the specification; Linux does so);
//     the peer is then kAnswered, and its requests are offered. What is kept is bounded; the oldest
//     question makes way.
// Everything costs O(log n), whatever peers send.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "daemon/base/time.hpp"
#include "daemon/base/token_bucket.hpp"
#include "daemon/management/cm/environment.hpp"
#include "daemon/management/cm/mad_sender.hpp"
#include "daemon/management/cm/parameters.hpp"

namespace softhca::management::cm {

/// A bounded number of peers: the one noted least recently makes way.
class RecentPeers {
 public:
  explicit RecentPeers(std::size_t most) : most_(most) {}
  bool contains(const Gid& peer) const { return peers_.contains(peer); }
  /// Returns the peer's mark, which is Time::min() for a new peer, until the next call.
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
  /// Requests of unknown peers that are offered without a question.
  static constexpr Rate kUnasked{.per_second = 8, .burst = 32};
  /// Requests that wait for an answer; of one peer.
  static constexpr std::size_t kKept = 1024;
  static constexpr std::size_t kKeptOfPeer = 256;

  /// All outlive it.
  AddressValidation(Environment& environment, User& user, MadSender& sender, Counters& counters);
  AddressValidation(const AddressValidation&) = delete;
  AddressValidation& operator=(const AddressValidation&) = delete;

  Standing standing_of(const Gid& peer) const;
  void note_established(const Gid& peer, Time now);

  /// True if a request of an unknown peer may be offered without a question. Counts it.
  bool may_offer_unasked(Time now);
  /// Keeps a REQ or SIDR_REQ until its sender has answered a question, which is sent.
  void ask(const Path& path, const wire::Mad& request, Time now);
  /// Takes a DREP that belongs to no connection. Returns the requests that it lets in.
  std::vector<wire::Mad> take_answer(const wire::CmDrep& drep, const Path& path);

 private:
  using RequestKey = std::pair<std::uint16_t, std::uint32_t>;  ///< attribute, the peer's id
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

  Environment& environment_;
  User& user_;
  MadSender& sender_;
  Counters& counters_;
  RecentPeers established_;
  RecentPeers answered_;
  TokenBucket unasked_;
  std::map<Gid, Question> questions_;
  std::map<std::uint64_t, Gid> by_order_;
  std::uint64_t orders_ = 0;
  std::size_t kept_ = 0;  ///< requests of all questions
};

}  // namespace softhca::management::cm
