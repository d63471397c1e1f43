// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/gsa/share_adjuster.hpp"

#include <algorithm>
#include <bit>

namespace softhca::management::gsa {

void ShareAdjuster::expire(Time now) {
  if (now < next_) return;
  next_ = now + parameters_.window;
  ++window_;
  clients_.for_each([this](std::uint32_t i, Client& client) { judge(i, client); });
}

void ShareAdjuster::parameters_changed(Time now) {
  next_ = std::min(next_, now + parameters_.window);
}

/// Judges one window of a client's traffic: was its share too small, or much too large.
void ShareAdjuster::judge(std::uint32_t i, Client& client) {
  const bool stuck = client.gives_back == GivesBack::kMaybe && !client.gave_back;
  const bool too_small = !stuck && (client.refused || client.peak > client.share);
  const bool too_large = !client.refused && client.peak <= client.share / 2;
  client.short_windows = static_cast<std::uint8_t>(client.short_windows << 1 | (too_small ? 1 : 0));
  client.calm_windows = too_large ? client.calm_windows + 1 : 0;
  const auto windows = static_cast<std::uint32_t>(std::popcount(client.short_windows));
  // A stuck client would keep unused buffers from other clients.
  if (stuck && client.held() != 0 && client.share > client.asked)
    shares_.lower(i, client.asked);
  else if (parameters_.raise_after != 0 && windows >= parameters_.raise_after)
    raise(i, client);
  else if (client.share > client.asked && client.calm_windows >= parameters_.lower_after)
    shares_.lower(i, std::max(client.asked, client.share / 2));
  client.peak = client.held();
  client.refused = false;
  client.gave_back = false;
}

/// Raises a share to what the client needed. If discarded datagrams hide that, raises it by half.
/// The share stays within the operator's limit and comes from buffers that belong to no share.
void ShareAdjuster::raise(std::uint32_t i, const Client& client) {
  std::uint64_t share = std::max(client.peak, client.share);
  if (client.refused) share += std::max(1u, client.share / 2);
  share = std::min(share, shares_.most_for(client));
  if (share > client.share) shares_.raise(i, static_cast<std::uint32_t>(share));
}

}  // namespace softhca::management::gsa
