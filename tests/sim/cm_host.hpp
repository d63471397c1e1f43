// SPDX-License-Identifier: Apache-2.0

// A machine with a connection manager and programs that connect, accept, refuse, think, disconnect
// and die. It checks that what the manager tells makes sense.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <queue>

#include "daemon/roce/cm/manager.hpp"
#include "tests/sim/link.hpp"
#include "tests/sim/random.hpp"

namespace softhca::sim {

namespace cm = management::cm;

/// How the programs behave; probabilities.
struct CmHabits {
  double silence = 0;  ///< of a full backlog
  double refuse = 0;   ///< no listener
  double reject = 0;   ///< by the program, on either side
  double die = 0;      ///< destroys at any moment
  Duration longest_thought = std::chrono::seconds(1);

  /// True if no program refuses, rejects or leaves. Every connect must then succeed, however lossy
  /// the link.
  bool are_benign() const { return silence + refuse + reject + die == 0; }
};

/// Counted events, so that a run can show that they occurred.
enum class CmCount : std::uint8_t {
  kEstablished,
  kRefused,
  kRejected,
  kUnreachable,
  kDisconnected,
  kDisconnectRequested,
  kTimeWaitOver,
  kDestroyed,
  kSidrReplied,
  kEarly,
  kRetries,
  kDuplicates,
  kStale,
  kTimeouts,
  kUnknown,
  kCount,
};
using CmCounts = std::array<std::uint64_t, static_cast<std::size_t>(CmCount::kCount)>;

class CmHost final : public cm::CmEnvironment, public cm::User {
 public:
  CmHost(int side, const CmHabits& habits, Link& link, Random& random, CmCounts& counts);

  static Gid gid_of(int side) { return Gid::from_ipv4(0x0a090001u + static_cast<unsigned>(side)); }

  /// Connects to that side, or asks it for a queue pair, at a time.
  void plan_connect(int to, Time at) { plan({at, Step::kConnect, {}, to}); }
  void plan_question(int to, Time at) { plan({at, Step::kAsk, {}, to}); }
  /// A new machine of the same address: nothing of the old one is known.
  void restart();
  /// Everything is disconnected or destroyed from now on.
  void close_all(Time now);

  void receive(int from, std::span<const std::byte> mad, Time now);
  /// Timers and programs.
  void step(Time now);
  Time next_event() const;

  /// Checks that no connection waits: all that remain are established.
  void check_settled() const;
  void check_empty() const;
  /// Every connect succeeded and every disconnect was answered.
  void check_succeeded() const;
  void add_counts() const;
  cm::Manager& manager() { return *manager_; }
  unsigned generation() const { return generation_; }
  /// The other machine's generation when this connection began.
  unsigned peer_generation(cm::CommId id) const { return programs_.at(id.value).peer_generation; }
  std::array<CmHost*, 2> hosts{};

  // cm::CmEnvironment
  void send(const cm::Path& path, const wire::Mad& mad) override;
  std::uint32_t random() override { return static_cast<std::uint32_t>(random_.next()); }
  // cm::User
  cm::Answer on_request(const cm::ConnectionRequest& request) override;
  cm::Answer on_sidr_request(const cm::SidrRequest& request) override;
  void on_event(const cm::Event& event) override;

 private:
  enum class Phase : std::uint8_t {
    kConnecting,
    kReplied,
    kRequested,
    kAccepted,
    kEstablished,
    kDisconnecting,
    kPeerAsked,
    kClosed,
    kAsking,
    kAsked,
  };
  /// What a program knows of its connection.
  struct Program {
    Phase phase{};
    bool active = false;
    int peer = 0;
    unsigned peer_generation = 0;
    std::uint64_t cookie = 0;
  };
  enum class Step : std::uint8_t {
    kConnect,
    kAsk,
    kDecide,  ///< accept, reject, confirm, answer: whatever the phase asks for
    kDisconnect,
    kDie,
    kEarlyMessage,
  };
  struct Plan {
    Time at;
    Step step;
    cm::CommId id;
    int to = 0;
    unsigned generation = 0;
    bool operator>(const Plan& other) const { return at > other.at; }
  };

  void plan(Plan plan);
  void carry_out(const Plan& plan);
  void connect(int to);
  void ask(int to);
  void decide(cm::CommId id, Program& program);
  void disconnect(cm::CommId id, Program& program);
  void die(cm::CommId id);
  void enter(cm::CommId id, Program& program, Phase phase);
  void forget(cm::CommId id) { programs_.erase(id.value); }
  Time later();
  void count(CmCount what) { ++counts_[static_cast<std::size_t>(what)]; }
  void expect(cm::Result result, const char* what) const;

  const int side_;
  const CmHabits habits_;
  Link& link_;
  Random& random_;
  CmCounts& counts_;
  Time now_{};
  unsigned generation_ = 0;
  std::uint32_t next_qpn_ = 1;
  std::uint64_t next_cookie_ = 1;
  unsigned failed_ = 0;  ///< connects refused, and whatever found no answer
  std::unique_ptr<cm::Manager> manager_;
  std::map<std::uint32_t, Program> programs_;
  std::priority_queue<Plan, std::vector<Plan>, std::greater<>> plans_;
};

}  // namespace softhca::sim
