// How many buffers are posted (E1 to E3). Which of them is taken next does not matter, so only
// their number is kept.
#include <algorithm>

#include "daemon/management/gsa/receive_pool.hpp"

namespace softhca::management::gsa {

std::uint32_t ReceivePool::low_threshold() const {
  return std::min(parameters_.low_threshold.value_or(asked_ / 4), parameters_.buffers);
}

std::uint32_t ReceivePool::high_threshold() const {
  return std::max(parameters_.high_threshold.value_or(asked_), low_threshold());
}

/// E1: at least the sum of what was posted for each client is posted or in use.
void ReceivePool::post_for_shares() {
  provisioned_ = std::max({provisioned_, shares_, counters_.in_use.value()});
  provisioned_ = std::min(provisioned_, std::max(parameters_.buffers, counters_.in_use.value()));
  post_below_low_threshold();
  remove_above_high_threshold();
}

/// E2: a share has become smaller by so many.
void ReceivePool::remove_posted(std::uint32_t buffers) {
  provisioned_ -= std::min(buffers, posted());
  post_for_shares();
}

/// A buffer for a datagram that may have one. False: there is none, as what was promised lately is
/// still in use by those who had borrowed it.
bool ReceivePool::post_for_datagram() {
  if (posted() != 0) return true;
  if (provisioned_ >= parameters_.buffers) return false;
  post_more(1);
  return true;
}

/// E3: up to the middle between the thresholds, so that it is not done for every datagram.
void ReceivePool::post_below_low_threshold() {
  const std::uint32_t low = low_threshold();
  if (posted() < low) post_more(low + (high_threshold() - low) / 2 - posted());
  publish_posted();
}

void ReceivePool::post_more(std::uint32_t wanted) {
  if (provisioned_ >= parameters_.buffers) return;
  const std::uint32_t more = std::min(wanted, parameters_.buffers - provisioned_);
  provisioned_ += more;
  counters_.posted_more.add(more);
}

/// E3: what was added, and no more than that.
void ReceivePool::remove_above_high_threshold() {
  // Fewer buffers than before a reload: what is given back is not posted again.
  if (provisioned_ > parameters_.buffers)
    provisioned_ = std::max(parameters_.buffers, counters_.in_use.value());
  const std::uint32_t high = high_threshold();
  if (posted() > high && provisioned_ > shares_) {
    const std::uint32_t surplus = std::min(posted() - high, provisioned_ - shares_);
    provisioned_ -= surplus;
    counters_.removed.add(surplus);
  }
  publish_posted();
}

void ReceivePool::publish_posted() {
  counters_.posted.set(posted());
  counters_.added.set(provisioned_ > shares_ ? provisioned_ - shares_ : 0);
}

}  // namespace softhca::management::gsa
