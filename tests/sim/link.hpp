// SPDX-License-Identifier: Apache-2.0

// A link in virtual time that drops, doubles, delays, reorders and damages frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <queue>
#include <vector>

#include "daemon/base/time.hpp"
#include "tests/sim/random.hpp"

namespace softhca::sim {

/// Probabilities per frame.
struct Faults {
  double drop = 0;
  double duplicate = 0;
  double reorder = 0;  ///< delayed by up to `reorder_delay` more than its neighbours
  double corrupt = 0;  ///< one to three bits flipped anywhere in the frame
  Duration delay = std::chrono::microseconds(5);
  Duration reorder_delay = std::chrono::microseconds(40);
};

using Frame = std::vector<std::byte>;

struct Arrival {
  Time at;
  std::uint64_t order;  ///< frames of the same time arrive in the order they were sent
  int side;             ///< receiver
  Frame frame;
};

class Link {
 public:
  Link(const Faults& faults, Random& random) : faults_(faults), random_(random) {}

  void send(int to_side, Frame frame, Time now);
  Time next_arrival() const { return queue_.empty() ? kNever : queue_.top().at; }
  /// The next frame due at `now`. REQUIRES: next_arrival() <= now.
  Arrival take();

  std::uint64_t frames_sent() const { return frames_sent_; }

 private:
  struct Later {
    bool operator()(const Arrival& a, const Arrival& b) const {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };
  void enqueue(int side, Frame frame, Time now);

  const Faults faults_;
  Random& random_;
  std::priority_queue<Arrival, std::vector<Arrival>, Later> queue_;
  std::uint64_t order_ = 0;
  std::uint64_t frames_sent_ = 0;
};

}  // namespace softhca::sim
