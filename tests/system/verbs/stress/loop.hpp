// SPDX-License-Identifier: Apache-2.0

// A reliable queue pair that is connected to itself, for commands one or a few at a time.
#pragma once

#include <deque>

#include "tests/system/verbs/stress/completions.hpp"

namespace softhca::stress {

class Loop {
 public:
  Loop(const Device& device, ibv_pd* pd, Completions& completions, ibv_qp_cap cap);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  const ibv_qp* qp() const { return qp_.get(); }

  /// `wr` has what the operation needs. Whatever is posted tells when it is complete.
  void post(ibv_send_wr wr, ibv_sge local);
  void write(ibv_sge from, const std::byte* to, std::uint32_t key, unsigned flags = 0);
  void read(ibv_sge to, const std::byte* from, std::uint32_t key);
  /// The key that the window has when that is complete.
  std::uint32_t bind(ibv_mw* window, ibv_mr* region, const std::byte* begin, std::size_t bytes,
                     unsigned access);
  void invalidate(std::uint32_t key);

  /// Waits for all that is posted. What failed first, or success.
  ibv_wc_status finish();
  void reset();

 private:
  void connect();

  const Device& device_;
  Completions& completions_;
  QueuePair qp_;
  Inbox sent_, received_;
  std::deque<std::uint64_t> posted_;
  std::uint64_t serial_ = 0;
};

/// The bytes of a slot.
inline ibv_sge entry_of(std::uint64_t address, std::size_t bytes, const ibv_mr* region) {
  return {address, static_cast<std::uint32_t>(bytes), region != nullptr ? region->lkey : 0};
}

}  // namespace softhca::stress
