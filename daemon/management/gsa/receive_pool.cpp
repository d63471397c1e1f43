// Clients and what they ask for (E1, E2), the operator's parameters, and what the operator sees.
#include "daemon/management/gsa/receive_pool.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace softhca::management::gsa {

ReceivePool::ReceivePool(const PoolSize& size, const Parameters& parameters, Time now)
    : parameters_(parameters),
      clients_(size.clients),
      sources_(size.sources, size.seed),
      buffers_(size.buffers),
      free_(size.buffers),
      promised_(size.clients),
      changed_(size.clients),
      watch_at_(now + parameters.adjustment.window) {
  by_key_.reserve(size.clients);
  for (std::uint32_t i = 0; i < size.buffers; ++i) free_[i] = size.buffers - 1 - i;
  parameters_.buffers = std::min(parameters.buffers, size.buffers);
}

// --- clients

Expected<ClientId> ReceivePool::register_client(ClientKey key, std::string name,
                                                std::optional<std::uint32_t> number,
                                                GivesBack gives_back) {
  if (by_key_.contains(key.value)) return Error{"there is such a client already", EEXIST};
  const std::uint32_t asked = number.value_or(parameters_.buffers_per_client);
  if (Outcome room = check_room(0, asked); !room) return room.error();
  const auto id = clients_.allocate();
  if (!id) return Error{"all places for clients are taken", ENOSPC};
  Client& client = clients_[id->index] =
      Client{.key = key, .name = std::move(name), .number = number, .gives_back = gives_back};
  by_key_.emplace(key.value, id->index);
  counters_.clients.add();
  client.new_rate.set(parameters_.sources.new_rate, Time{});
  set_asked(id->index, asked);
  client.told_share = asked;
  return *id;
}

Outcome ReceivePool::set_buffers(ClientId id, std::optional<std::uint32_t> number) {
  Client* client = clients_.find(id);
  if (client == nullptr) return Error{"no such client", ENOENT};
  const std::uint32_t asked = number.value_or(parameters_.buffers_per_client);
  if (Outcome room = check_room(client->asked, asked); !room) return room;
  client->number = number;
  set_asked(id.index, asked);
  client->told_share = asked;
  return {};
}

void ReceivePool::deregister_client(ClientId id) {
  Client* client = clients_.find(id);
  if (client == nullptr) return;
  // What it holds stays reserved until release().
  asked_ -= client->asked;
  client->asked = 0;
  set_share(id.index, 0);
  by_key_.erase(client->key.value);
  promised_.clear(id.index);
  changed_.clear(id.index);
  clients_.free(id.index);
  counters_.clients.subtract();
}

/// `before`: what it asked for until now.
Outcome ReceivePool::check_room(std::uint32_t before, std::uint32_t asked) const {
  if (asked == 0) return Error{"a client needs at least one buffer", EINVAL};
  const std::uint32_t others = asked_ - before;
  const std::uint32_t room = parameters_.buffers > others ? parameters_.buffers - others : 0;
  if (asked <= room) return {};
  return Error{"there is room for " + std::to_string(room) + " of " +
                   std::to_string(parameters_.buffers) + " buffers, not for " +
                   std::to_string(asked),
               ENOMEM};
}

/// A client has exactly what it asked for. REQUIRES: check_room().
void ReceivePool::set_asked(std::uint32_t i, std::uint32_t asked) {
  Client& client = clients_[i];
  asked_ = asked_ - client.asked + asked;
  client.asked = asked;
  client.counters.asked.set(asked);
  client.short_windows = 0;
  client.calm_windows = 0;
  if (client.share <= asked) lower_raised_shares(asked - client.share);
  set_share(i, asked);
}

void ReceivePool::set_share(std::uint32_t i, std::uint32_t share) {
  Client& client = clients_[i];
  const std::uint32_t before = std::exchange(client.share, share);
  shares_ = shares_ - before + share;
  client.counters.share.set(share);
  if (client.granted > share) change(client, [&] { client.granted = share; });
  if (client.granted < share) promised_.set(i);
  grant_promised();
  if (share < before) remove_posted(before - share);
  post_for_shares();
}

/// Shares are granted out of what nobody has borrowed, so that no client ever loses to one that was
/// promised more a moment ago; the rest when buffers are given back.
void ReceivePool::grant_promised() {
  while (const auto i = promised_.find_first()) {
    Client& client = clients_[*i];
    const std::uint32_t overdrawn = client.own > client.granted ? client.own - client.granted : 0;
    const std::uint32_t missing = client.share - client.granted;
    const std::uint32_t more = std::min(missing, overdrawn + spare_buffers());
    change(client, [&] { client.granted += more; });
    if (more < missing) return;
    promised_.clear(*i);
  }
}

// --- parameters

Outcome ReceivePool::check(const Parameters& p) {
  const auto is_part = [](double part) { return part > 0 && part <= 1; };
  if (p.buffers == 0 || p.buffers_per_client == 0 || p.buffers_per_client > p.buffers)
    return Error{"buffers_per_client must be at least 1 and at most buffers", EINVAL};
  if (p.low_threshold && p.high_threshold && *p.low_threshold > *p.high_threshold)
    return Error{"the low threshold must not be above the high one", EINVAL};
  if (!is_part(p.sources.part) || !is_part(p.sources.new_part))
    return Error{"the part of a source must be above 0 and at most 1", EINVAL};
  if (p.sources.probation < Duration::zero() || p.sources.forget_after < Duration::zero())
    return Error{"times of sources must not be negative", EINVAL};
  const ShareAdjustment& a = p.adjustment;
  if (a.window <= Duration::zero() || a.raise_after > 8 || a.lower_after == 0 || a.most == 0)
    return Error{"traffic must be watched for some time, at most 8 windows, and a share kept",
                 EINVAL};
  return {};
}

Outcome ReceivePool::set_parameters(const Parameters& p, Time now) {
  if (Outcome valid = check(p); !valid) return valid;
  if (p.buffers > buffers_.size())
    return Error{"at most " + std::to_string(buffers_.size()) + " buffers", EINVAL};
  std::uint64_t asked = 0;
  for (std::uint32_t i = 0; i < clients_.capacity(); ++i)
    if (clients_.is_used(i)) asked += clients_[i].number.value_or(p.buffers_per_client);
  if (asked > p.buffers)
    return Error{"the clients ask for " + std::to_string(asked) + " buffers", ENOMEM};
  parameters_ = p;
  watch_at_ = std::min(watch_at_, now + p.adjustment.window);
  for (std::uint32_t i = 0; i < clients_.capacity(); ++i) {
    if (!clients_.is_used(i)) continue;
    Client& client = clients_[i];
    client.new_rate.set(p.sources.new_rate, now);
    const std::uint32_t wanted = client.number.value_or(p.buffers_per_client);
    if (wanted == client.asked) continue;
    set_asked(i, wanted);
    changed_.set(i);
  }
  lower_raised_shares(0);
  grant_promised();
  post_for_shares();
  return {};
}

// --- what the operator sees

std::optional<ClientId> ReceivePool::find_client(ClientKey key) const {
  const auto found = by_key_.find(key.value);
  if (found == by_key_.end()) return std::nullopt;
  return clients_.handle(found->second);
}

const ClientCounters* ReceivePool::counters_of(ClientId id) const {
  const bool current = id.index < clients_.capacity() && clients_.is_used(id.index) &&
                       clients_.handle(id.index) == id;
  return current ? &clients_[id.index].counters : nullptr;
}

std::vector<ClientView> ReceivePool::clients() const {
  std::vector<ClientView> all;
  for (std::uint32_t i = 0; i < clients_.capacity(); ++i) {
    if (!clients_.is_used(i)) continue;
    const Client& client = clients_[i];
    all.push_back({clients_.handle(i), client.key, client.name, client.borrowed, client.counters});
  }
  std::ranges::sort(all, {}, &ClientView::key);
  return all;
}

std::vector<SourceView> ReceivePool::busiest_sources(std::size_t most) const {
  std::vector<SourceView> all;
  for (const Source& source : sources_.places()) {
    if (counters_of(source.client) == nullptr) continue;
    all.push_back({.client = clients_[source.client.index].key,
                   .source = source.gid,
                   .established = source.established,
                   .held = source.held(),
                   .recent = source.heard_lately(window_),
                   .received = source.received,
                   .discarded = source.discarded});
  }
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(most, all.size()));
  std::ranges::partial_sort(all, end, std::greater{}, &SourceView::recent);
  all.erase(end, all.end());
  return all;
}

}  // namespace softhca::management::gsa
