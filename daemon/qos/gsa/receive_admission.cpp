// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/gsa/receive_admission.hpp"

#include <algorithm>

namespace softhca::management::gsa {

namespace {

/// Returns `part` of `whole` buffers, at least 1.
std::uint32_t part_of(std::uint32_t whole, double part) {
  return std::max(1u, static_cast<std::uint32_t>(whole * part));
}

/// Returns how many buffers of its client's share a single source leaves for the first datagrams of
/// others.
std::uint32_t kept_for_others(std::uint32_t share) {
  return share == 1 ? 0 : std::max(1u, share / 8);
}

/// True if more than half of the burst is used.
bool is_busy(const TokenBucket& bucket, Time now) {
  const Rate& rate = bucket.rate();
  if (rate.per_second == 0) return false;
  const double spare = static_cast<double>(rate.burst) / 2 - 1;  // ready_at() leaves the last one
  const double wait = spare * 1e9 / static_cast<double>(rate.per_second);
  return bucket.ready_at() + Duration(static_cast<Duration::rep>(wait)) > now;
}

bool within_share(const Client& client, const Source& source, const SourceLimits& limits,
                  Time now) {
  if (client.own >= client.granted) return false;
  const bool alone = now >= client.several_until;
  if (alone && client.own + kept_for_others(client.share) < client.share) return true;
  if (!source.established && client.own_of_new >= part_of(client.share, limits.new_part))
    return false;
  return source.own < part_of(client.share, limits.part);
}

/// True if the source may borrow. It may borrow as much as it leaves, so some buffers are always
/// left for another.
bool may_borrow(const Client& client, const Source& source, const SourceLimits& limits,
                const SpareBuffers& spare) {
  if (client.gives_back == GivesBack::kMaybe || client.borrowed >= spare.left) return false;
  if (!source.established && spare.borrowed_by_new >= part_of(spare.left, limits.new_part))
    return false;
  return source.borrowed < part_of(spare.left, limits.part);
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

void note_source(Client& client, std::uint32_t source, Duration window, Time now) {
  if (client.latest != kNoIndex && client.latest != source) client.several_until = now + window;
  client.latest = source;
}

Discard check_rates(const Client& client, const Source& source, Time now) {
  if (source.rate.ready_at() > now) return Discard::kSourceOverRate;
  if (!source.established && client.new_rate.ready_at() > now) return Discard::kNewSourcesOver;
  return Discard::kNone;
}

Grant grant(const Client& client, const Source& source, const SourceLimits& limits,
            const SpareBuffers& spare, Time now) {
  if (within_share(client, source, limits, now)) return Grant::kOwn;
  return may_borrow(client, source, limits, spare) ? Grant::kBorrowed : Grant::kRefused;
}

Discard cause_of_refusal(const Client& client, const Source& source, const SourceLimits& limits,
                         const SpareBuffers& spare) {
  bool of_source = false;
  if (client.own < client.granted)
    of_source = source.own >= part_of(client.share, limits.part);
  else if (client.own < client.share)
    return Discard::kExhausted;
  else if (client.gives_back == GivesBack::kMaybe || client.borrowed >= spare.left)
    return Discard::kOverQuota;
  else
    of_source = source.borrowed >= part_of(spare.left, limits.part);
  return of_source ? Discard::kSourceOverQuota : Discard::kNewSourcesOver;
}

bool is_busy(const Client& client, const Source& source, Time now) {
  return is_busy(source.rate, now) || (!source.established && is_busy(client.new_rate, now));
}

}  // namespace softhca::management::gsa
