// Shares follow the traffic (E4).
#include <algorithm>
#include <bit>

#include "daemon/management/gsa/receive_pool.hpp"

namespace softhca::management::gsa {

void ReceivePool::watch_traffic(Time now) {
  if (now < watch_at_) return;
  watch_at_ = now + parameters_.adjustment.window;
  ++window_;
  for (std::uint32_t i = 0; i < clients_.capacity(); ++i)
    if (clients_.is_used(i)) judge_traffic(i);
}

/// One window of a client's traffic: was its share too small, or far too large?
void ReceivePool::judge_traffic(std::uint32_t i) {
  Client& client = clients_[i];
  const bool stuck = client.gives_back == GivesBack::kMaybe && !client.gave_back;
  const bool too_small = !stuck && (client.refused || client.peak > client.share);
  const bool too_large = !client.refused && client.peak <= client.share / 2;
  client.short_windows = static_cast<std::uint8_t>(client.short_windows << 1 | (too_small ? 1 : 0));
  client.calm_windows = too_large ? client.calm_windows + 1 : 0;
  const ShareAdjustment& a = parameters_.adjustment;
  // It would keep from others what it does not use.
  if (stuck && client.held() != 0 && client.share > client.asked)
    lower_share(i, client.asked);
  else if (a.raise_after != 0 &&
           static_cast<std::uint32_t>(std::popcount(client.short_windows)) >= a.raise_after)
    raise_share(i);
  else if (client.share > client.asked && client.calm_windows >= a.lower_after)
    lower_share(i, std::max(client.asked, client.share / 2));
  client.peak = client.held();
  client.refused = false;
  client.gave_back = false;
}

/// To what it needed, or by half where that is not known since datagrams were discarded; no further
/// than the operator allows, and out of what is nobody's.
void ReceivePool::raise_share(std::uint32_t i) {
  Client& client = clients_[i];
  std::uint64_t share = std::max(client.peak, client.share);
  if (client.refused) share += std::max(1u, client.share / 2);
  const std::uint64_t most =
      std::min(std::uint64_t{client.asked} * parameters_.adjustment.most,
               std::uint64_t{client.share} + (parameters_.buffers - shares_));
  share = std::min(share, most);
  if (share <= client.share) return;
  client.short_windows = 0;
  set_share(i, static_cast<std::uint32_t>(share));
  client.counters.raised.add();
  counters_.raised.add();
  changed_.set(i);
}

/// REQUIRES: `share` is less than it has.
void ReceivePool::lower_share(std::uint32_t i, std::uint32_t share) {
  Client& client = clients_[i];
  client.calm_windows = 0;
  set_share(i, share);
  client.counters.lowered.add();
  counters_.lowered.add();
  changed_.set(i);
}

/// What clients ask for comes before what they were given unasked. REQUIRES: asked_ and `wanted`
/// have room together.
void ReceivePool::lower_raised_shares(std::uint32_t wanted) {
  for (std::uint32_t i = 0; i < clients_.capacity() && shares_ + wanted > parameters_.buffers; ++i)
    if (clients_.is_used(i) && clients_[i].share > clients_[i].asked)
      lower_share(i, clients_[i].asked);
}

std::optional<ShareChange> ReceivePool::take_share_change() {
  while (const auto i = changed_.find_first()) {
    changed_.clear(*i);
    Client& client = clients_[*i];
    const std::uint32_t before = std::exchange(client.told_share, client.share);
    if (before != client.share)
      return ShareChange{clients_.handle(*i), client.key, before, client.share};
  }
  return std::nullopt;
}

}  // namespace softhca::management::gsa
