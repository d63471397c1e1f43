// SPDX-License-Identifier: Apache-2.0

#include "tests/sim/link.hpp"

#include <utility>

namespace softhca::sim {

void Link::send(int to_side, Frame frame, Time now) {
  ++frames_sent_;
  if (random_.chance(faults_.drop)) return;
  if (random_.chance(faults_.duplicate)) enqueue(to_side, frame, now);
  enqueue(to_side, std::move(frame), now);
}

void Link::enqueue(int side, Frame frame, Time now) {
  if (random_.chance(faults_.corrupt)) {
    for (std::uint32_t flips = random_.between(1, 3); flips > 0; --flips)
      frame[random_.below(static_cast<std::uint32_t>(frame.size()))] ^=
          std::byte(1u << random_.below(8));
  }
  Time at = now + faults_.delay;
  if (random_.chance(faults_.reorder))
    at += Duration(random_.below(static_cast<std::uint32_t>(faults_.reorder_delay.count())));
  queue_.push({at, order_++, side, std::move(frame)});
}

Arrival Link::take() {
  Arrival first = std::move(const_cast<Arrival&>(queue_.top()));
  queue_.pop();
  return first;
}

}  // namespace softhca::sim
