// How many buffers of a receive pool are posted (mechanisms E1 to E3). Which of them is taken next
// does not matter, so only their number is kept. Pure.
#pragma once

#include <cstdint>

#include "daemon/management/gsa/client.hpp"
#include "daemon/management/gsa/parameters.hpp"

namespace softhca::management::gsa {

class PostedBuffers {
 public:
  /// Both outlive it. It keeps the counters of buffers posted, in use, added and removed.
  PostedBuffers(const Parameters& parameters, PoolCounters& counters)
      : parameters_(parameters), counters_(counters) {}
  PostedBuffers(const PostedBuffers&) = delete;
  PostedBuffers& operator=(const PostedBuffers&) = delete;

  /// `asked`: the sum over the clients. Takes effect with the next call that posts or removes.
  void set_asked(std::uint32_t asked) { asked_ = asked; }
  void set_shares(std::uint32_t shares) { shares_ = shares; }

  /// Posted buffers below which more are posted, above which those are removed (E3).
  std::uint32_t low_threshold() const;
  std::uint32_t high_threshold() const;
  std::uint32_t posted() const { return provisioned_ - counters_.in_use.value(); }

  /// E1: at least the sum of the shares is posted or in use.
  void post_for_shares();
  /// E2: a share has become smaller by so many.
  void remove(std::uint32_t buffers);
  /// Posts a buffer for a datagram that may have one, unless one is posted. False: there is none,
  /// since what was promised lately is still in use by those who had borrowed it.
  bool post_for_datagram();
  /// A posted buffer is in use from now on. REQUIRES: one is posted.
  void take();
  /// A buffer is no longer in use, and is posted again unless there are too many.
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
