// SPDX-License-Identifier: Apache-2.0

// Joins two queue pairs of this daemon: finds the other end, and copies once from the memory of one
// process to that of the other.
#pragma once

#include <optional>

#include "daemon/engine/queue_pairs/qp_environment.hpp"
#include "daemon/engine/records/qp_table.hpp"
#include "daemon/roce/transport/local/link.hpp"

namespace softhca::engine {

class QpLocalLink : public transport::LocalLink {
 public:
  QpLocalLink(const TransportParts& parts, QueuePair& qp) : parts_(parts), qp_(qp) {}
  virtual ~QpLocalLink() = default;

  bool goes_on() const override {
    return !qp_.error.pending && (qp_.state == QpState::kRts || qp_.state == QpState::kSqd);
  }
  const transport::LocalPeer* find_peer() override;
  /// Takes up what an earlier engine has left between the two ends: an atomic that may have run.
  void resume();
  /// Returns the peer that was found last.
  const QueuePair* peer() const { return peer_; }
  /// True if there was a peer, but a fault has lost the message to it.
  bool was_lost() const { return lost_; }
  bool is_within_rate(const transport::Request& request) const override;
  void wait_for_rate(const transport::Request& request) override;
  bool waits_for_rate() const override {
    return parts_.slow_memory.waits(qp_) || parts_.peer_rates.waits(qp_);
  }
  bool may_go_on() const override { return !parts_.slow_memory.any() || !is_slow(); }
  bool has_drawn() const override { return peer_->rq.drawn; }
  bool has_receive() const override { return ReceiveQueues::has_receive(*peer_); }
  Draw draw() override;
  std::uint64_t drawn_bytes() const override { return peer_->rq.work->bytes; }
  Moved move(const transport::Request& request, std::uint32_t offset, std::uint32_t bytes) override;
  Moved run_atomic(const transport::Request& request) override;
  std::uint64_t charge(std::uint32_t bytes, bool begins) override;
  void begins(const transport::Request& request) override;
  void arrived(const transport::Request& request) override;

 protected:
  bool lost_ = false;

 private:
  QueuePair* connected_peer() const;
  bool is_slow() const;
  transport::Replay& record_of_atomic();
  bool has_record(std::uint32_t sequence);
  Moved move_runs(const transport::Request& request, RegionPlace place, std::uint32_t offset,
                  std::uint32_t bytes);
  Moved refuse_access(const transport::Request& request, std::uint32_t offset, std::uint32_t bytes);
  Moved refuse_receive(Verdict verdict, std::uint32_t offset, std::uint32_t bytes);

  const TransportParts& parts_;
  QueuePair& qp_;
  QueuePair* peer_ = nullptr;  ///< found last
  std::optional<QpEnvironment> there_;
  std::optional<transport::LocalPeer> end_;
};

}  // namespace softhca::engine
