// Which datagrams get a buffer (E5).
#include <algorithm>
#include <cassert>

#include "daemon/management/gsa/receive_pool.hpp"

namespace softhca::management::gsa {

namespace {
/// Of `whole` buffers, at least one.
std::uint32_t part_of(std::uint32_t whole, double part) {
  return std::max(1u, static_cast<std::uint32_t>(whole * part));
}
/// What a single source leaves of its client's share to the first datagrams of others.
std::uint32_t kept_for_others(std::uint32_t share) {
  return share == 1 ? 0 : std::max(1u, share / 8);
}
/// More than half of the burst is used.
bool is_busy(const TokenBucket& bucket, Time now) {
  const Rate& rate = bucket.rate();
  if (rate.per_second == 0) return false;
  const double spare = static_cast<double>(rate.burst) / 2 - 1;  // ready_at() leaves the last one
  const double wait = spare * 1e9 / static_cast<double>(rate.per_second);
  return bucket.ready_at() + Duration(static_cast<Duration::rep>(wait)) > now;
}
}  // namespace

const char* name_of(Discard cause) {
  switch (cause) {
    case Discard::kNone:
      return "none";
    case Discard::kNoClient:
      return "no_client";
    case Discard::kOverQuota:
      return "over_quota";
    case Discard::kSourceOverQuota:
      return "source_over_quota";
    case Discard::kSourceOverRate:
      return "source_over_rate";
    case Discard::kNewSourcesOver:
      return "new_sources_over";
    case Discard::kExhausted:
      return "exhausted";
  }
  return "unknown";
}

Admission ReceivePool::admit(ClientKey key, const Gid& gid, Time now) {
  const auto found = by_key_.find(key.value);
  if (found == by_key_.end()) return discard({}, nullptr, nullptr, Discard::kNoClient);
  const ClientId id = clients_.handle(found->second);
  Client& client = clients_[id.index];
  const Admission none{.client = id};
  const std::uint32_t i = sources_.hear(id, gid, parameters_.sources, now, window_);
  if (i == kNoIndex) return discard(none, &client, nullptr, Discard::kNewSourcesOver);
  Source& source = sources_[i];
  note_source(client, i, now);
  if (const Discard cause = check_rates(client, source, now); cause != Discard::kNone)
    return discard(none, &client, &source, cause);
  const Grant granted = grant(client, source, now);
  if (granted == Grant::kRefused)
    return discard(none, &client, &source, cause_of_refusal(client, source));
  if (!post_for_datagram()) return discard(none, &client, &source, Discard::kExhausted);
  source.rate.charge(1, now);
  if (!source.established) client.new_rate.charge(1, now);
  return {.buffer = take_buffer(id, i, granted == Grant::kBorrowed),
          .client = id,
          .from_busy_source =
              is_busy(source.rate, now) || (!source.established && is_busy(client.new_rate, now))};
}

/// Remembers whether several sources send to a client: then each is held to its part.
void ReceivePool::note_source(Client& client, std::uint32_t source, Time now) const {
  if (client.latest != kNoIndex && client.latest != source)
    client.several_until = now + parameters_.adjustment.window;
  client.latest = source;
}

Discard ReceivePool::check_rates(const Client& client, const Source& source, Time now) {
  if (source.rate.ready_at() > now) return Discard::kSourceOverRate;
  if (!source.established && client.new_rate.ready_at() > now) return Discard::kNewSourcesOver;
  return Discard::kNone;
}

ReceivePool::Grant ReceivePool::grant(const Client& client, const Source& source, Time now) const {
  if (within_share(client, source, now)) return Grant::kOwn;
  return may_borrow(client, source) ? Grant::kBorrowed : Grant::kRefused;
}

bool ReceivePool::within_share(const Client& client, const Source& source, Time now) const {
  if (client.own >= client.granted) return false;
  const bool alone = now >= client.several_until;
  if (alone && client.own + kept_for_others(client.share) < client.share) return true;
  const SourceLimits& limits = parameters_.sources;
  if (!source.established && client.own_of_new >= part_of(client.share, limits.new_part))
    return false;
  return source.own < part_of(client.share, limits.part);
}

/// Each may borrow as much as it leaves, so that there is always something left for another.
bool ReceivePool::may_borrow(const Client& client, const Source& source) const {
  const std::uint32_t spare = spare_buffers();
  if (client.gives_back == GivesBack::kMaybe || client.borrowed >= spare) return false;
  const SourceLimits& limits = parameters_.sources;
  if (!source.established && borrowed_by_new_ >= part_of(spare, limits.new_part)) return false;
  return source.borrowed < part_of(spare, limits.part);
}

/// REQUIRES: grant() refused.
Discard ReceivePool::cause_of_refusal(const Client& client, const Source& source) const {
  const double part = parameters_.sources.part;
  const std::uint32_t spare = spare_buffers();
  bool of_source = false;
  if (client.own < client.granted)
    of_source = source.own >= part_of(client.share, part);
  else if (client.own < client.share)
    return Discard::kExhausted;
  else if (client.gives_back == GivesBack::kMaybe || client.borrowed >= spare)
    return Discard::kOverQuota;
  else
    of_source = source.borrowed >= part_of(spare, part);
  return of_source ? Discard::kSourceOverQuota : Discard::kNewSourcesOver;
}

/// Buffers of nobody's share that nobody has borrowed.
std::uint32_t ReceivePool::spare_buffers() const {
  return parameters_.buffers > reserved_ ? parameters_.buffers - reserved_ : 0;
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

/// REQUIRES: one is posted.
std::uint32_t ReceivePool::take_buffer(ClientId id, std::uint32_t source, bool borrowed) {
  assert(posted() != 0 && !free_.empty());
  const std::uint32_t buffer = free_.back();
  free_.pop_back();
  const bool of_new = !sources_[source].established;
  buffers_[buffer] = {
      .client = id, .source = source, .borrowed = borrowed, .of_new_source = of_new};
  Client& client = clients_[id.index];
  change(client, [&] { ++(borrowed ? client.borrowed : client.own); });
  if (of_new) ++(borrowed ? borrowed_by_new_ : client.own_of_new);
  sources_.take(source, borrowed);
  ++sources_[source].received;
  client.peak = std::max(client.peak, client.held());
  client.counters.received.add();
  counters_.in_use.add();
  counters_.in_use_high_water.raise_to(counters_.in_use.value());
  post_below_low_threshold();
  return buffer;
}

bool ReceivePool::release(std::uint32_t index) {
  if (index >= buffers_.size() || buffers_[index].client == ClientId{}) return false;
  const Buffer buffer = std::exchange(buffers_[index], Buffer{});
  free_.push_back(index);
  sources_.give_back(buffer.source, buffer.borrowed);
  if (buffer.of_new_source && buffer.borrowed) --borrowed_by_new_;
  if (Client* client = clients_.find(buffer.client); client != nullptr) {
    change(*client, [&] { --(buffer.borrowed ? client->borrowed : client->own); });
    client->gave_back = true;
    if (buffer.of_new_source && !buffer.borrowed) --client->own_of_new;
  } else {
    --reserved_;
  }
  grant_promised();
  counters_.in_use.subtract();
  remove_above_high_threshold();
  return true;
}

std::optional<ClientId> ReceivePool::holder_of(std::uint32_t buffer) const {
  if (buffer >= buffers_.size() || buffers_[buffer].client == ClientId{}) return std::nullopt;
  const ClientId id = buffers_[buffer].client;
  const bool current = clients_.is_used(id.index) && clients_.handle(id.index) == id;
  return current ? std::optional(id) : std::nullopt;
}

}  // namespace softhca::management::gsa
