// SPDX-License-Identifier: Apache-2.0

// The number of posted buffers of a receive pool (mechanisms E1 to E3). All buffers are alike, so
// only their number is recorded. Pure.
#pragma once

#include <cstdint>

#include "daemon/qos/gsa/gsa_client.hpp"
#include "daemon/qos/gsa/receive_parameters.hpp"

namespace softhca::management::gsa {

class PostedBuffers {
 public:
  /// Both outlive it. It maintains the counters of buffers posted, in use, added and removed.
  PostedBuffers(const Parameters& parameters, PoolCounters& counters)
      : parameters_(parameters), counters_(counters) {}
  PostedBuffers(const PostedBuffers&) = delete;
  PostedBuffers& operator=(const PostedBuffers&) = delete;

  /// `asked`: the sum over the clients. Takes effect with the next call that posts or removes.
  void set_asked(std::uint32_t asked) { asked_ = asked; }
  void set_shares(std::uint32_t shares) { shares_ = shares; }

  /// Returns the number of posted buffers below which more are posted, or above which the added
  /// ones are removed (E3).
  std::uint32_t low_threshold() const;
  std::uint32_t high_threshold() const;
  std::uint32_t posted() const { return provisioned_ - counters_.in_use.value(); }

  /// E1: keeps at least the sum of the shares posted or in use.
  void post_for_shares();
  /// E2: handles a share that became smaller by `buffers`.
  void remove(std::uint32_t buffers);
  /// Posts a buffer for a datagram that may have one, unless one is posted. Returns false if there
  /// is none: buffers that were promised recently are still in use by their borrowers.
  bool post_for_datagram();
  /// Moves a posted buffer to use. REQUIRES: one is posted.
  void take();
  /// Takes a buffer out of use and posts it again, unless too many are posted.
  void give_back();

 private:
  void post_below_low_threshold();
  void post_more(std::uint32_t wanted);
  void remove_above_high_threshold();
  void publish();

  const Parameters& parameters_;
  PoolCounters& counters_;
  std::uint32_t asked_ = 0;
  std::uint32_t shares_ = 0;
  std::uint32_t provisioned_ = 0;  ///< posted and in use; at least shares_
};

}  // namespace softhca::management::gsa
