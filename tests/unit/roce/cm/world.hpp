// SPDX-License-Identifier: Apache-2.0

// One connection manager, with a record of the messages that it sends and of the events that it
// reports to its user, as text.
#pragma once

#include <string>
#include <vector>

#include "daemon/roce/cm/manager.hpp"

namespace softhca::management::cm {

inline const Gid kHere = Gid::from_ipv4(0x0a090001);
inline const Gid kThere = Gid::from_ipv4(0x0a090002);
inline constexpr std::uint64_t kOurGuid = 0x1111111111111111;
inline constexpr std::uint64_t kPeerGuid = 0x2222222222222222;
inline constexpr std::uint64_t kService = 0x0000000001061c06;
inline constexpr Qpn kOurQpn{0x11};
inline constexpr Qpn kPeerQpn{0x22};
inline constexpr std::uint32_t kPeerId = 0x5001;

/// "REJ 28 about REP": the message of a MAD in a few words.
std::string text_of(const wire::Mad& mad);
/// "kRejected 8" and the like.
std::string text_of(const Event& event);

/// What a manager, or a part of one, sends and tells.
class Surroundings : public CmEnvironment, public User {
 public:
  // Environment
  void send(const Path& path, const wire::Mad& mad) override {
    paths.push_back(path);
    mads.push_back(mad);
  }
  std::uint32_t random() override { return next_random++; }

  // User
  Answer on_request(const ConnectionRequest& request) override {
    requests.push_back(request.id);
    last_path = request.path;
    last_req = request.message;
    return answer;
  }
  Answer on_sidr_request(const SidrRequest& request) override {
    sidr_requests.push_back(request.id);
    return answer;
  }
  void on_event(const Event& event) override {
    events.push_back(text_of(event));
    last_event = event;
  }

  Path path() const { return {.local = kHere, .remote = kThere}; }
  /// What was sent since the last call, one a line.
  std::string take_sent();
  std::string take_events();
  /// A REQ of the peer's, and its answer to one.
  wire::CmReq peer_req() const;
  wire::CmRep peer_rep(CommId id) const;

  Time now{};
  Answer answer = Answer::take(77);
  std::uint32_t next_random = 0x1001;
  std::vector<Path> paths;
  std::vector<wire::Mad> mads;
  std::vector<std::string> events;
  std::vector<CommId> requests;
  std::vector<CommId> sidr_requests;
  Path last_path;
  wire::CmReq last_req;
  Event last_event;  ///< its message is gone
};

class World final : public Surroundings {
 public:
  explicit World(const CmLimits& limits = {}) : manager(*this, *this, kOurGuid, limits) {}

  template <class Message>
  void receive(const Message& message, std::uint64_t transaction_id = 7) {
    manager.receive(wire::encode_cm(message, transaction_id), path(), Qpn(1), now);
  }
  /// Goes on to the next timer.
  void wait() {
    now = std::max(now, manager.next_deadline());
    manager.expire(now);
  }

  /// The peer connects, so that it is kEstablished. Its connection stays.
  void establish(const Path& from, std::uint32_t peer_id);

  // A connection in each state.
  CommId connect();
  CommId take_request();
  /// `active`: of the end that asked, where the state does not say which it is.
  CommId enter(State state, bool active = false);

  Manager manager;
};

}  // namespace softhca::management::cm
