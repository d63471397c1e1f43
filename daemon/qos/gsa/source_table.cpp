// SPDX-License-Identifier: Apache-2.0

#include "daemon/qos/gsa/source_table.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

namespace softhca::management::gsa {

namespace {
/// Returns both halves of the product, folded.
std::uint64_t fold_product(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}
}  // namespace

SourceTable::SourceTable(std::uint32_t places, const Seed& seed)
    : seed_(seed), sources_(std::max(places, 2u)) {
  buckets_.assign(std::bit_ceil(sources_.size()), kNoIndex);
  for (std::uint32_t i = 0; i < sources_.size(); ++i) free_.push_back(sources_.data(), i);
}

std::uint32_t& SourceTable::bucket_of(ClientId client, const Gid& gid) {
  std::array<std::uint64_t, 2> halves;
  std::memcpy(halves.data(), gid.bytes.data(), sizeof halves);
  const std::uint64_t id = std::uint64_t{client.generation} << 32 | client.index;
  const std::uint64_t hash = fold_product(halves[0] ^ seed_[0], halves[1] ^ seed_[1]);
  return buckets_[fold_product(hash ^ seed_[1], id ^ seed_[0]) & (buckets_.size() - 1)];
}

std::uint32_t SourceTable::find(ClientId client, const Gid& gid) {
  std::uint32_t i = bucket_of(client, gid);
  while (i != kNoIndex && !(sources_[i].client == client && sources_[i].gid == gid))
    i = sources_[i].next_in_bucket;
  return i;
}

std::uint32_t SourceTable::note_datagram(ClientId client, const Gid& gid,
                                         const SourceLimits& limits, Time now,
                                         std::uint32_t window) {
  std::uint32_t i = find(client, gid);
  if (i == kNoIndex) i = add(client, gid, now);
  if (i == kNoIndex) return i;
  Source& source = sources_[i];
  if (source.rate.rate() != limits.rate) source.rate.set(limits.rate, now);
  if (!source.established && now - source.first_seen >= limits.probation) establish(i, limits, now);
  source.last_seen = now;
  if (source.window != window) {
    source.recent_before = source.window + 1 == window ? source.recent : 0;
    source.recent = 0;
    source.window = window;
  }
  ++source.recent;
  if (source.held() == 0) {
    list_of(source).remove(sources_.data(), i);
    list_of(source).push_back(sources_.data(), i);
  }
  return i;
}

/// Returns kNoIndex if no entry can be replaced.
std::uint32_t SourceTable::add(ClientId client, const Gid& gid, Time now) {
  if (free_.empty()) {
    if (new_.empty()) return kNoIndex;
    forget(new_.front());
  }
  const std::uint32_t i = free_.pop_front(sources_.data());
  std::uint32_t& bucket = bucket_of(client, gid);
  sources_[i] = Source{.next_in_bucket = bucket, .client = client, .gid = gid, .first_seen = now};
  bucket = i;
  new_.push_back(sources_.data(), i);
  return i;
}

/// Frees an entry. REQUIRES: the source holds no buffers.
void SourceTable::forget(std::uint32_t i) {
  Source& source = sources_[i];
  assert(source.held() == 0);
  list_of(source).remove(sources_.data(), i);
  if (source.established) --(source.vouched_for ? vouched_for_count_ : established_count_);
  std::uint32_t* link = &bucket_of(source.client, source.gid);
  while (*link != i) link = &sources_[*link].next_in_bucket;
  *link = source.next_in_bucket;
  source = Source{};
  free_.push_front(sources_.data(), i);
}

/// Marks a source as established, unless recent senders occupy all entries for established sources.
void SourceTable::establish(std::uint32_t i, const SourceLimits& limits, Time now) {
  if (established_count_ >= sources_.size() / 2) {
    const std::uint32_t oldest = established_.front();
    if (oldest == kNoIndex || now - sources_[oldest].last_seen < limits.forget_after) return;
    forget(oldest);
  }
  Source& source = sources_[i];
  const bool linked = source.held() == 0;
  if (linked) new_.remove(sources_.data(), i);
  source.established = true;
  ++established_count_;
  if (linked) established_.push_back(sources_.data(), i);
}

void SourceTable::vouch(ClientId client, const Gid& gid, Time now) {
  std::uint32_t i = find(client, gid);
  if (i == kNoIndex) i = add(client, gid, now);
  if (i == kNoIndex || sources_[i].vouched_for) return;
  if (vouched_for_count_ >= std::max<std::size_t>(sources_.size() / 4, 1)) {
    if (vouched_for_.empty()) return;  // all of these hold buffers now
    forget(vouched_for_.front());
  }
  Source& source = sources_[i];
  const bool linked = source.held() == 0;
  if (linked) list_of(source).remove(sources_.data(), i);
  if (source.established) --established_count_;
  source.established = source.vouched_for = true;
  ++vouched_for_count_;
  if (linked) vouched_for_.push_back(sources_.data(), i);
}

void SourceTable::take(std::uint32_t i, bool borrowed) {
  Source& source = sources_[i];
  if (source.held() == 0) list_of(source).remove(sources_.data(), i);
  ++(borrowed ? source.borrowed : source.own);
}

void SourceTable::give_back(std::uint32_t i, bool borrowed) {
  Source& source = sources_[i];
  assert(source.held() != 0);
  --(borrowed ? source.borrowed : source.own);
  if (source.held() == 0) list_of(source).push_back(sources_.data(), i);
}

}  // namespace softhca::management::gsa
