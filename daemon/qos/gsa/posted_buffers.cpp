// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/gsa/posted_buffers.hpp"

#include <algorithm>
#include <cassert>

namespace softhca::management::gsa {

std::uint32_t PostedBuffers::low_threshold() const {
  return std::min(parameters_.low_threshold.value_or(asked_ / 4), parameters_.buffers);
}

std::uint32_t PostedBuffers::high_threshold() const {
  return std::max(parameters_.high_threshold.value_or(asked_), low_threshold());
}

void PostedBuffers::post_for_shares() {
  provisioned_ = std::max({provisioned_, shares_, counters_.in_use.value()});
  provisioned_ = std::min(provisioned_, std::max(parameters_.buffers, counters_.in_use.value()));
  post_below_low_threshold();
  remove_above_high_threshold();
}

void PostedBuffers::remove(std::uint32_t buffers) {
  provisioned_ -= std::min(buffers, posted());
  post_for_shares();
}

bool PostedBuffers::post_for_datagram() {
  if (posted() != 0) return true;
  if (provisioned_ >= parameters_.buffers) return false;
  post_more(1);
  return true;
}

void PostedBuffers::take() {
  assert(posted() != 0);
  add_one(counters_.in_use, counters_.in_use_high_water);
  post_below_low_threshold();
}

void PostedBuffers::give_back() {
  counters_.in_use.subtract();
  remove_above_high_threshold();
}

/// E3: posts up to the middle between the thresholds, so that not every datagram posts.
void PostedBuffers::post_below_low_threshold() {
  const std::uint32_t low = low_threshold();
  if (posted() < low) post_more(low + (high_threshold() - low) / 2 - posted());
  publish();
}

void PostedBuffers::post_more(std::uint32_t wanted) {
  if (provisioned_ >= parameters_.buffers) return;
  const std::uint32_t more = std::min(wanted, parameters_.buffers - provisioned_);
  provisioned_ += more;
  counters_.posted_more.add(more);
}

/// E3: removes at most the buffers that were added.
void PostedBuffers::remove_above_high_threshold() {
  // After a reload to fewer buffers, a buffer that is given back is not posted again.
  if (provisioned_ > parameters_.buffers)
    provisioned_ = std::max(parameters_.buffers, counters_.in_use.value());
  const std::uint32_t high = high_threshold();
  if (posted() > high && provisioned_ > shares_) {
    const std::uint32_t surplus = std::min(posted() - high, provisioned_ - shares_);
    provisioned_ -= surplus;
    counters_.removed.add(surplus);
  }
  publish();
}

void PostedBuffers::publish() {
  counters_.posted.set(posted());
  counters_.added.set(provisioned_ > shares_ ? provisioned_ - shares_ : 0);
}

}  // namespace softhca::management::gsa
