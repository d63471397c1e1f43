// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/transport/reliable/kept_packets.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <new>

namespace softhca::transport {

// --- one responder

void KeptPackets::open(KeptStore& store, KeptAccount& account) {
  close();
  account_ = &account;
  account.store_ = &store;
}

void KeptPackets::close() {
  clear();
  account_ = nullptr;
}

bool KeptPackets::keep(const RequestPacket& packet) {
  KeptStore& store = *account_->store_;
  if (packet.payload.size() > KeptStore::kPlaceBytes) return false;
  if (store.find(*this, packet.h.psn) != kNoIndex) return true;
  if (!store.make_room(*account_)) return false;
  const std::uint32_t index = store.take();
  Place& place = store.table()[index];
  place.headers = packet.h;
  place.holder = this;
  place.length = static_cast<std::uint32_t>(packet.payload.size());
  if (!packet.payload.empty())
    std::memcpy(store.bytes_of(index), packet.payload.data(), packet.payload.size());
  store.insert(index);
  if (empty() || packet.h.psn.is_after(last_)) last_ = packet.h.psn;
  if (account_->held.value() == 0) store.accounts_.push_back(*account_);
  account_->places_.push_back(store.table(), index);
  ++size_;
  account_->held.add();
  account_->kept.add();
  return true;
}

bool KeptPackets::find(Psn psn, Packet& out) const {
  KeptStore& store = *account_->store_;
  const std::uint32_t index = store.find(*this, psn);
  if (index == kNoIndex) return false;
  const Place& place = store.table()[index];
  out.h = &place.headers;
  out.payload = std::span(store.bytes_of(index), place.length);
  return true;
}

/// Drops the packets in [first, end). A read request skips many PSNs, and few of them can be
/// buffered.
void KeptPackets::forget(Psn first, Psn end) {
  if (end.is_after(last_ + 1)) end = last_ + 1;
  for (Psn psn = first; !empty() && psn.is_before(end); ++psn) {
    const std::uint32_t index = account_->store_->find(*this, psn);
    if (index != kNoIndex) drop(index);
  }
}

/// Drops all packets. They lie within the connection's threshold, so the search from the last PSN
/// down is short.
void KeptPackets::clear() {
  for (Psn psn = last_; !empty(); psn = psn - 1) forget(psn, psn + 1);
}

void KeptPackets::drop(std::uint32_t index) {
  KeptStore& store = *account_->store_;
  account_->places_.remove(store.table(), index);
  store.remove(index);
  store.give_back(index);
  --size_;
  account_->held.subtract();
  if (account_->held.value() == 0) store.accounts_.remove(*account_);
}

// --- one tenant

void KeptAccount::give_up() {
  given_up.add(held.value());
  while (!places_.empty()) {
    const std::uint32_t index = places_.front();
    store_->table()[index].holder->drop(index);
  }
}

// --- all

void KeptStore::open(std::uint32_t places) {
  assert(places_ == 0);
  places_ = places;
  table_ = std::make_unique_for_overwrite<std::byte[]>(places * sizeof(Place));
  bytes_ = std::make_unique_for_overwrite<std::byte[]>(std::size_t{places} * kPlaceBytes);
  buckets_.assign(std::bit_ceil(std::max(places, 1u)), kNoIndex);
}

/// True if there is room for one packet of the account. If a watermark prevents it, packets are
/// dropped and the next call succeeds.
bool KeptStore::make_room(KeptAccount& account) {
  if (account.watermark_ == 0 || std::min(watermark_, places_) == 0) return false;
  if (account.held.value() >= account.watermark_) {
    account.give_up();
    return false;
  }
  if (held_ < std::min(watermark_, places_)) return true;
  KeptAccount* most = accounts_.front();
  accounts_.for_each([&](KeptAccount& other) {
    if (other.held.value() > most->held.value()) most = &other;
  });
  most->give_up();
  return false;
}

std::uint32_t KeptStore::take() {
  assert(held_ < places_);
  ++held_;
  if (free_ == kNoIndex) {
    new (&table()[fresh_]) Place();
    return fresh_++;
  }
  const std::uint32_t index = free_;
  free_ = table()[index].chain;
  return index;
}

void KeptStore::give_back(std::uint32_t index) {
  --held_;
  table()[index].chain = free_;
  free_ = index;
}

/// Returns the bucket of a packet. It depends on the address of the holder, which no peer knows, so
/// a peer cannot provoke collisions.
std::uint32_t& KeptStore::bucket_of(const KeptPackets& holder, Psn psn) {
  std::uint64_t key =
      reinterpret_cast<std::uintptr_t>(&holder) + (std::uint64_t{psn.value()} << 40);
  key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9;
  key = (key ^ (key >> 27)) * 0x94d049bb133111eb;
  return buckets_[(key ^ (key >> 31)) & (buckets_.size() - 1)];
}

std::uint32_t KeptStore::find(const KeptPackets& holder, Psn psn) {
  for (std::uint32_t i = bucket_of(holder, psn); i != kNoIndex; i = table()[i].chain)
    if (table()[i].holder == &holder && table()[i].headers.psn == psn) return i;
  return kNoIndex;
}

void KeptStore::insert(std::uint32_t index) {
  Place& place = table()[index];
  std::uint32_t& bucket = bucket_of(*place.holder, place.headers.psn);
  place.chain = bucket;
  bucket = index;
}

void KeptStore::remove(std::uint32_t index) {
  const Place& place = table()[index];
  std::uint32_t* link = &bucket_of(*place.holder, place.headers.psn);
  while (*link != index) link = &table()[*link].chain;
  *link = place.chain;
}

}  // namespace softhca::transport
