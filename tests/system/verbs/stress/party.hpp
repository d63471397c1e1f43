// SPDX-License-Identifier: Apache-2.0

// A queue pair of datagrams, its memory, and what is to come there.
#pragma once

#include <deque>
#include <optional>

#include "tests/system/verbs/stress/memory.hpp"
#include "tests/system/verbs/stress/station.hpp"

namespace softhca::stress {

class Party {
 public:
  static constexpr unsigned kDepth = 32;         // of its queues
  static constexpr std::uint32_t kBytes = 1024;  // of a slot: more than a datagram has
  static constexpr std::uint32_t kMost = 768;

  Party(Station& station, std::uint32_t qkey, bool lossy);
  ~Party();
  Party(const Party&) = delete;
  Party& operator=(const Party&) = delete;

  std::uint32_t qpn() const { return qp_->qp_num; }
  std::uint32_t qkey() const { return qkey_; }
  bool member() const { return group_.has_value(); }

  void attach(const ibv_gid& group);
  void detach();

  void send(ibv_sge from, ibv_ah* to, std::uint32_t qpn, std::uint32_t qkey);
  /// Waits until all that is posted has left.
  void finish_sends();

  /// As many receives as there is room for.
  void provide();
  /// This datagram comes, after those that were expected before. On a lossy path it may come late,
  /// twice or never.
  void expect(std::uint64_t number, std::uint32_t bytes);
  /// This one, to a group it is not in, may find it there if it comes late, on a lossy path.
  void permit(std::uint64_t number, std::uint32_t bytes);
  /// Waits for them; nothing else may have come.
  void finish_receives();

  /// All that is under way vanishes, and the membership.
  void reset();

 private:
  struct Datagram {
    std::uint64_t number;
    std::uint32_t bytes;
  };

  bool take();
  template <class Is>
  bool recognize(const Is& is);

  const std::uint32_t qkey_;
  const bool lossy_;
  std::optional<ibv_gid> group_;
  Completions completions_;
  Slots slots_;
  QueuePair qp_;
  Inbox sent_, received_;
  std::deque<Datagram> expected_;
  std::deque<Datagram> passed_;  ///< lossy: came, or are behind one that has
  unsigned posted_ = 0, next_ = 0, under_way_ = 0;
  std::uint64_t serial_ = 0;
};

}  // namespace softhca::stress
