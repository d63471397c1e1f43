// SPDX-License-Identifier: Apache-2.0

// A queue pair of program `a` with one of program `b`. `a` posts random work in order. Each
// completion and each byte is checked: nothing comes twice, in another order or with an error, and
// on a reliable service nothing is missing. The queue pair may fail at some command: all later ones
// are flushed.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "tests/sim/random.hpp"
#include "tests/sim/restart_world.hpp"

namespace softhca::sim {

/// How the queue pair of `a` fails.
enum class Ending : std::uint8_t {
  kNone,
  kRemoteAccess,     ///< a command names memory that `b` has not registered
  kLocalProtection,  ///< a command names memory that `a` has not registered
  kByProgram,        ///< `a` moves it to the error state
};

struct LaneOptions {
  engine::QpType type = engine::QpType::kRc;
  engine::TestSrq* srq = nullptr;  ///< of `b`; null: the queue pair has a receive queue of its own
  std::uint32_t operations = 60;
  std::uint32_t longest = 6000;  ///< bytes of a message
  Ending ending = Ending::kNone;
  std::uint32_t ends_at = 0;  ///< number of the command at which it fails
  bool drains = false;        ///< `a` moves it to SQD and back now and then
};

/// The receives of a queue of `b`.
class ReceiveSlots {
 public:
  static constexpr std::uint32_t kSlots = 16;

  ReceiveSlots(engine::Process& owner, std::uint32_t bytes);
  /// Posts free slots to the queue. `sometimes`: may leave some out.
  void post(engine::ReceivePoster& queue, Random& random);
  /// Returns what a completed receive holds, and frees it.
  std::vector<std::byte> take(std::uint32_t index, std::uint32_t bytes);
  /// Returns the number of receives that are posted and not completed.
  std::uint32_t posted() const { return kSlots - static_cast<std::uint32_t>(free_.size()); }

 private:
  engine::Buffer& buffer_;
  std::uint32_t each_;
  std::uint32_t next_ = 0;  ///< index of the next receive
  std::deque<std::uint32_t> free_;
  std::vector<std::uint32_t> slot_of_;  ///< by index
};

class Lane {
 public:
  Lane(RestartWorld& world, engine::TestCq& send, engine::TestCq& receive,
       const LaneOptions& options, std::uint32_t number, Random& random);

  /// The programs do something, or nothing.
  void act();
  void completed(const engine::Completed& completion);
  void received(const engine::Completed& completion);
  /// A completion of the queue pair of `b` in its send queue: a window is bound.
  void bound(const engine::Completed& completion);
  /// True if all work is done.
  bool is_done() const;
  void expect_complete() const;
  /// True if an asynchronous event may come.
  bool may_raise(engine::EventType type) const;

  const engine::TestQp& near() const { return *near_; }
  const engine::TestQp& far() const { return *far_; }
  /// The memory of atomics.
  engine::Buffer& counter() { return *counter_; }
  ReceiveSlots* receives = nullptr;  ///< of the queue that `b` uses

 private:
  static constexpr std::uint32_t kSlots = 32;
  static constexpr std::uint32_t kDepth = 16;
  static constexpr std::uint32_t kNone = ~0u;

  enum class Kind : std::uint8_t {
    kSend,
    kSendImm,
    kWrite,
    kWriteImm,
    kRead,
    kFetchAdd,
    kCompareSwap,
    kSendInvalidate,
  };
  struct Operation {
    Kind kind;
    bool signaled;
    std::uint32_t length;
    std::uint32_t from = 0;      ///< of a read: place in the constant memory
    std::uint64_t original = 0;  ///< of an atomic
  };

  bool is_reliable() const { return engine::is_reliable(options_.type); }
  bool is_datagram() const { return options_.type == engine::QpType::kUd; }
  bool draws(Kind kind) const {
    return kind == Kind::kSend || kind == Kind::kSendImm || kind == Kind::kWriteImm ||
           kind == Kind::kSendInvalidate;
  }
  bool fails() const { return options_.ending != Ending::kNone; }
  /// True if the command may complete with this status.
  bool may_fail(std::uint32_t number, abi::CompletionStatus status) const;
  Kind choose_kind();
  void change_state();
  void post();
  void bind_window();
  void check(std::uint32_t number, const Operation& operation);
  std::vector<std::byte> message(std::uint32_t number, std::uint32_t length) const;

  RestartWorld& world_;
  Random& random_;
  const LaneOptions options_;
  const std::uint32_t number_;
  engine::TestQp* near_;
  engine::TestQp* far_;
  std::uint32_t ah_ = 0;
  engine::Buffer *source_, *sink_, *remote_, *constant_, *counter_;
  std::vector<Operation> operations_;  ///< by number, those posted
  std::uint32_t done_ = 0;             ///< of them, those known to be complete
  std::uint32_t next_message_ = 0;     ///< number of the first that the next receive may hold
  std::uint32_t messages_ = 0;         ///< received
  std::uint64_t count_ = 0;            ///< what the counter will be
  std::uint32_t window_ = 0;           ///< key; 0: none is bound
  std::uint32_t last_window_ = 0;
  bool binding_ = false;
  bool draining_ = false;
  bool failed_ = false;               ///< a command has completed with an error
  bool far_failed_ = false;           ///< a receive was flushed
  std::uint32_t last_drawn_ = kNone;  ///< the last command that drew a receive and has not failed
  std::optional<std::uint64_t> counted_;  ///< what the counter is at the failure
};

}  // namespace softhca::sim
