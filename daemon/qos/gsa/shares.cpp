// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/gsa/shares.hpp"

#include <cerrno>
#include <string>
#include <utility>

namespace softhca::management::gsa {

Shares::Shares(const Parameters& parameters, ClientTable& clients, PostedBuffers& posted,
               PoolCounters& counters)
    : parameters_(parameters),
      clients_(clients),
      posted_(posted),
      counters_(counters),
      promised_(clients.capacity()),
      changed_(clients.capacity()) {}

// --- what clients ask for

Outcome Shares::check_room(std::uint32_t before, std::uint32_t asked) const {
  if (asked == 0) return Error{"a client needs at least one buffer", EINVAL};
  const std::uint32_t others = asked_ - before;
  const std::uint32_t room = parameters_.buffers > others ? parameters_.buffers - others : 0;
  if (asked <= room) return {};
  return Error{std::to_string(asked) + " buffers requested, " + std::to_string(room) + " of " +
                   std::to_string(parameters_.buffers) + " are free",
               ENOMEM};
}

void Shares::set_asked(std::uint32_t i, std::uint32_t asked) {
  Client& client = clients_[i];
  asked_ = asked_ - client.asked + asked;
  posted_.set_asked(asked_);
  client.asked = asked;
  client.counters.asked.set(asked);
  client.short_windows = 0;
  client.calm_windows = 0;
  if (client.share <= asked) lower_raised(asked - client.share);
  set_share(i, asked);
}

void Shares::remove(std::uint32_t i) {
  Client& client = clients_[i];
  asked_ -= client.asked;
  posted_.set_asked(asked_);
  client.asked = 0;
  set_share(i, 0);
  promised_.clear(i);
  changed_.clear(i);
}

void Shares::parameters_changed() {
  lower_raised(0);
  grant_promised();
  posted_.post_for_shares();
}

void Shares::set_share(std::uint32_t i, std::uint32_t share) {
  Client& client = clients_[i];
  const std::uint32_t before = std::exchange(client.share, share);
  shares_ = shares_ - before + share;
  posted_.set_shares(shares_);
  client.counters.share.set(share);
  if (client.granted > share) change(client, [&] { client.granted = share; });
  if (client.granted < share) promised_.set(i);
  grant_promised();
  if (share < before) posted_.remove(before - share);
  posted_.post_for_shares();
}

/// Grants shares out of the spare buffers, so that no client loses buffers to one that was promised
/// more recently. The rest is granted when buffers are given back.
void Shares::grant_promised() {
  while (const auto i = promised_.find_first()) {
    Client& client = clients_[*i];
    const std::uint32_t overdrawn = client.own > client.granted ? client.own - client.granted : 0;
    const std::uint32_t missing = client.share - client.granted;
    const std::uint32_t more = std::min(missing, overdrawn + spare());
    change(client, [&] { client.granted += more; });
    if (more < missing) return;
    promised_.clear(*i);
  }
}

// --- what clients hold

std::uint32_t Shares::spare() const {
  return parameters_.buffers > reserved_ ? parameters_.buffers - reserved_ : 0;
}

void Shares::take(Client& client, bool borrowed, bool of_new_source) {
  change(client, [&] { ++(borrowed ? client.borrowed : client.own); });
  if (of_new_source) ++(borrowed ? borrowed_by_new_ : client.own_of_new);
  client.peak = std::max(client.peak, client.held());
}

void Shares::give_back(Client* client, bool borrowed, bool of_new_source) {
  if (of_new_source && borrowed) --borrowed_by_new_;
  if (client != nullptr) {
    change(*client, [&] { --(borrowed ? client->borrowed : client->own); });
    client->gave_back = true;
    if (of_new_source && !borrowed) --client->own_of_new;
  } else {
    --reserved_;
  }
  grant_promised();
}

// --- shares that follow traffic

std::uint64_t Shares::most_for(const Client& client) const {
  return std::min(std::uint64_t{client.asked} * parameters_.adjustment.most,
                  std::uint64_t{client.share} + (parameters_.buffers - shares_));
}

void Shares::raise(std::uint32_t i, std::uint32_t share) {
  Client& client = clients_[i];
  client.short_windows = 0;
  set_share(i, share);
  client.counters.raised.add();
  counters_.raised.add();
  changed_.set(i);
}

void Shares::lower(std::uint32_t i, std::uint32_t share) {
  Client& client = clients_[i];
  client.calm_windows = 0;
  set_share(i, share);
  client.counters.lowered.add();
  counters_.lowered.add();
  changed_.set(i);
}

/// Lowers raised shares: what clients ask for has priority over what they got unasked. REQUIRES:
/// asked_ and `wanted` together fit.
void Shares::lower_raised(std::uint32_t wanted) {
  for (std::uint32_t i = 0; i < clients_.capacity() && shares_ + wanted > parameters_.buffers; ++i)
    if (clients_.is_used(i) && clients_[i].share > clients_[i].asked) lower(i, clients_[i].asked);
}

std::optional<ShareChange> Shares::take_change() {
  while (const auto i = changed_.find_first()) {
    changed_.clear(*i);
    Client& client = clients_[*i];
    const std::uint32_t before = std::exchange(client.told_share, client.share);
    if (before != client.share)
      return ShareChange{clients_.id_of(*i), client.key, before, client.share};
  }
  return std::nullopt;
}

}  // namespace softhca::management::gsa
