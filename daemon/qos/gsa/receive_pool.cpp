// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/gsa/receive_pool.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/qos/gsa/receive_admission.hpp"

namespace softhca::management::gsa {

ReceivePool::ReceivePool(const PoolSize& size, const Parameters& parameters, Time now)
    : parameters_(parameters),
      clients_(size.clients),
      sources_(size.sources, size.seed),
      buffers_(size.buffers),
      posted_(parameters_, counters_),
      shares_(parameters_, clients_, posted_, counters_),
      adjuster_(parameters_.adjustment, clients_, shares_, now) {
  parameters_.buffers = std::min(parameters.buffers, size.buffers);
}

// --- clients

Expected<ClientId> ReceivePool::register_client(ClientKey key, std::string name,
                                                std::optional<std::uint32_t> requested,
                                                GivesBack gives_back) {
  if (clients_.contains(key)) return Error{"there is such a client already", EEXIST};
  const std::uint32_t asked = requested.value_or(parameters_.buffers_per_client);
  if (Outcome room = shares_.check_room(0, asked); !room) return room.error();
  const auto id = clients_.add(
      {.key = key, .name = std::move(name), .requested = requested, .gives_back = gives_back});
  if (!id) return Error{"all places for clients are taken", ENOSPC};
  counters_.clients.add();
  Client& client = clients_[id->index];
  client.new_rate.set(parameters_.sources.new_rate, Time{});
  shares_.set_asked(id->index, asked);
  client.told_share = asked;
  return *id;
}

Outcome ReceivePool::set_buffers(ClientId id, std::optional<std::uint32_t> requested) {
  Client* const client = clients_.find(id);
  if (client == nullptr) return Error{"no such client", ENOENT};
  const std::uint32_t asked = requested.value_or(parameters_.buffers_per_client);
  if (Outcome room = shares_.check_room(client->asked, asked); !room) return room;
  client->requested = requested;
  shares_.set_asked(id.index, asked);
  client->told_share = asked;
  return {};
}

void ReceivePool::deregister_client(ClientId id) {
  if (clients_.find(id) == nullptr) return;
  shares_.remove(id.index);
  clients_.remove(id);
  counters_.clients.subtract();
}

// --- datagrams

Admission ReceivePool::admit(ClientKey key, const Gid& gid, Time now) {
  const std::optional<ClientId> id = clients_.find(key);
  if (!id) return discard({}, nullptr, nullptr, Discard::kNoClient);
  Client& client = clients_[id->index];
  const Admission none{.client = *id};
  const SourceLimits& limits = parameters_.sources;
  const std::uint32_t i = sources_.note_datagram(*id, gid, limits, now, adjuster_.window());
  if (i == kNoIndex) return discard(none, &client, nullptr, Discard::kNewSourcesOver);
  Source& source = sources_[i];
  note_source(client, i, parameters_.adjustment.window, now);
  if (const Discard cause = check_rates(client, source, now); cause != Discard::kNone)
    return discard(none, &client, &source, cause);
  const SpareBuffers spare{.left = shares_.spare(), .borrowed_by_new = shares_.borrowed_by_new()};
  const Grant granted = grant(client, source, limits, spare, now);
  if (granted == Grant::kRefused)
    return discard(none, &client, &source, cause_of_refusal(client, source, limits, spare));
  if (!posted_.post_for_datagram()) return discard(none, &client, &source, Discard::kExhausted);
  source.rate.charge(1, now);
  if (!source.established) client.new_rate.charge(1, now);
  return {.buffer = take_buffer(*id, i, granted == Grant::kBorrowed),
          .client = *id,
          .from_busy_source = is_busy(client, source, now)};
}

void ReceivePool::vouch_for(ClientKey key, const Gid& gid, Time now) {
  if (const std::optional<ClientId> id = clients_.find(key)) sources_.vouch(*id, gid, now);
}

/// Takes a posted buffer. REQUIRES: one is posted.
std::uint32_t ReceivePool::take_buffer(ClientId id, std::uint32_t source, bool borrowed) {
  const bool of_new = !sources_[source].established;
  Client& client = clients_[id.index];
  shares_.take(client, borrowed, of_new);
  sources_.take(source, borrowed);
  ++sources_[source].received;
  client.counters.received.add();
  posted_.take();
  return buffers_.take(
      {.client = id, .source = source, .borrowed = borrowed, .of_new_source = of_new});
}

Admission ReceivePool::discard(Admission admission, Client* client, Source* source, Discard cause) {
  const auto i = static_cast<std::size_t>(cause);
  counters_.discarded[i].add();
  if (client != nullptr) {
    client->counters.discarded[i].add();
    client->refused |= cause == Discard::kOverQuota;
  }
  if (source != nullptr) ++source->discarded;
  admission.cause = cause;
  return admission;
}

bool ReceivePool::release(std::uint32_t buffer) {
  const std::optional<BufferTable::Holder> holder = buffers_.give_back(buffer);
  if (!holder) return false;
  sources_.give_back(holder->source, holder->borrowed);
  shares_.give_back(clients_.find(holder->client), holder->borrowed, holder->of_new_source);
  posted_.give_back();
  return true;
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
  clients_.for_each([&](std::uint32_t, const Client& client) {
    asked += client.requested.value_or(p.buffers_per_client);
  });
  if (asked > p.buffers)
    return Error{"the clients ask for " + std::to_string(asked) + " buffers", ENOMEM};
  parameters_ = p;
  adjuster_.parameters_changed(now);
  clients_.for_each([&](std::uint32_t i, Client& client) {
    client.new_rate.set(p.sources.new_rate, now);
    const std::uint32_t wanted = client.requested.value_or(p.buffers_per_client);
    if (wanted == client.asked) return;
    shares_.set_asked(i, wanted);
    shares_.note_changed(i);
  });
  shares_.parameters_changed();
  return {};
}

// --- reports for operators

const ClientCounters* ReceivePool::counters_of(ClientId id) const {
  const Client* const client = clients_.find(id);
  return client != nullptr ? &client->counters : nullptr;
}

std::vector<SourceView> ReceivePool::busiest_sources(std::size_t most) const {
  std::vector<SourceView> all;
  const std::uint32_t window = adjuster_.window();
  for (const Source& source : sources_.places()) {
    const Client* const client = clients_.find(source.client);
    if (client == nullptr) continue;
    all.push_back({.client = client->key,
                   .source = source.gid,
                   .established = source.established,
                   .held = source.held(),
                   .recent = source.recent_in(window),
                   .received = source.received,
                   .discarded = source.discarded});
  }
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(most, all.size()));
  std::ranges::partial_sort(all, end, std::greater{}, &SourceView::recent);
  all.erase(end, all.end());
  return all;
}

}  // namespace softhca::management::gsa
