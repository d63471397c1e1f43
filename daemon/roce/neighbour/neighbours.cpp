// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/neighbour/neighbours.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <chrono>
#include <cstring>
#include <tuple>
#include <utility>

namespace softhca::neighbour {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kReachableTime = seconds(30);  // RFC 4861 10, REACHABLE_TIME
constexpr Duration kRetryTime = seconds(1);       // RFC 4861 10, RETRANS_TIMER; RFC 1122 2.3.2.1
constexpr std::uint8_t kUnicastProbes = 3;        // RFC 4861 10, MAX_UNICAST_SOLICIT
constexpr Duration kUnansweredKept = seconds(5);  // after the last use
constexpr Duration kAnsweredKept = seconds(600);  // after the last use
/// Links and bridges that wake up often lose a first request, and a connection should not wait a
/// second for the next.
constexpr std::array<Duration, 3> kFirstRetries = {milliseconds(20), milliseconds(100),
                                                   milliseconds(300)};
/// A tenant that sends to a thousand addresses must not flood the network, nor keep other tenants
/// from sending requests. The tenants that send requests share these.
constexpr std::uint32_t kRequestsPerWindow = 32;
constexpr Duration kWindow = milliseconds(100);
/// A user gets no more entries of a full table if its neighbours without an answer have this part
/// of it.
constexpr std::uint32_t kUnansweredPart = 8;
/// A neighbour with so many unanswered requests, after some 0.4 s, makes way for another of the
/// same user.
constexpr std::uint8_t kTriesInPeace = 4;
constexpr Duration kLookAgain = milliseconds(20);

constexpr std::size_t kMacLength = 6;

bool on_network_of(const LocalAddress& own, const Gid& other) {
  return AddressPrefix{own.address, own.prefix_length}.contains(other);
}

std::uint64_t hash(const Gid& g) {
  std::uint64_t high, low;
  std::memcpy(&high, g.bytes.data(), sizeof high);
  std::memcpy(&low, g.bytes.data() + sizeof high, sizeof low);
  return ((high ^ (low >> 32)) * 0x9e3779b97f4a7c15U + low) * 0xd6e8feb86659fd93U >> 32;
}

}  // namespace

Neighbours::Neighbours(const Options& options, Sender send)
    : options_(options), send_(std::move(send)) {
  assert(options.capacity > 0);
  entries_.resize(options.capacity);
  buckets_.assign(std::bit_ceil(options.capacity), kNone);
  for (std::uint32_t i = options.capacity; i-- > 0; free_ = i) entries_[i].next = free_;
}

// ---- the table

std::size_t Neighbours::bucket_of(const Gid& address) const {
  return hash(address) & (buckets_.size() - 1);
}

const Neighbours::Entry* Neighbours::find(const Gid& address) const {
  for (std::uint32_t i = buckets_[bucket_of(address)]; i != kNone; i = entries_[i].next)
    if (entries_[i].address == address) return &entries_[i];
  return nullptr;
}

Neighbours::Entry* Neighbours::find(const Gid& address) {
  return const_cast<Entry*>(std::as_const(*this).find(address));
}

/// Adds an entry. Null: the table is full, and too many of the user's neighbours have not answered.
Neighbours::Entry* Neighbours::insert(const Gid& address, Time now, TenantId id) {
  if (!make_way(id, now)) {
    counters_.refused.add();
    return nullptr;
  }
  if (free_ == kNone) make_room(id);
  const std::uint32_t i = free_;
  Entry& entry = entries_[i];
  free_ = entry.next;
  std::uint32_t& bucket = buckets_[bucket_of(address)];
  entry = {address, {}, State::kIncomplete, 0, bucket, id, now, now};
  bucket = i;
  ++size_;
  count(entry, 1);
  return &entry;
}

/// Adds an entry to its user's counts (1) or removes it from them (-1).
void Neighbours::count(const Entry& entry, int change) {
  User& user = users_[entry.user];
  user.entries += static_cast<std::uint32_t>(change);
  if (entry.state == State::kIncomplete) user.unanswered += static_cast<std::uint32_t>(change);
}

void Neighbours::erase(Entry& entry) {
  const auto i = static_cast<std::uint32_t>(&entry - entries_.data());
  std::uint32_t* link = &buckets_[bucket_of(entry.address)];
  while (*link != i) link = &entries_[*link].next;
  *link = entry.next;
  count(entry, -1);
  entry.state = State::kFree;
  entry.next = free_;
  free_ = i;
  --size_;
}

/// True if the user may have another neighbour without an answer. If the table is full and the user
/// has many of them, this evicts the one with the most requests. Neighbours with few requests stay:
/// otherwise a user with many neighbours would evict each before its answer arrives.
bool Neighbours::make_way(TenantId id, Time now) {
  User& user = users_[id];
  if (free_ != kNone || user.unanswered < options_.capacity / kUnansweredPart) return true;
  if (now < user.full_until) return false;
  const auto tries = [&](const Entry& e) {
    return e.state == State::kIncomplete && e.user == id ? e.tries : 0;
  };
  const auto most =
      std::max_element(entries_.begin(), entries_.end(),
                       [&](const Entry& a, const Entry& b) { return tries(a) < tries(b); });
  if (tries(*most) < kTriesInPeace) {
    user.full_until = now + kLookAgain;
    return false;
  }
  erase(*most);
  counters_.evicted.add();
  return true;
}

/// Evicts an entry of the user that has most of them: one without an answer if there is any, and of
/// these the one unused for longest.
void Neighbours::make_room(TenantId id) {
  TenantId from = id;
  for (const auto& [other, user] : users_)
    if (user.entries > users_[from].entries) from = other;
  const auto rank = [&](const Entry& e) {
    return std::tuple(e.user != from, e.state != State::kIncomplete, e.used);
  };
  erase(*std::min_element(entries_.begin(), entries_.end(),
                          [&](const Entry& a, const Entry& b) { return rank(a) < rank(b); }));
  counters_.evicted.add();
}

// ---- addresses

void Neighbours::add_address(const LocalAddress& address) {
  remove_address(address.address);
  addresses_.push_back(address);
}

void Neighbours::remove_address(const Gid& address) {
  std::erase_if(addresses_, [&](const LocalAddress& a) { return a.address == address; });
}

void Neighbours::set_gateway(const Gid& ipv4_gateway, const Gid& ipv6_gateway) {
  gateway4_ = ipv4_gateway;
  gateway6_ = ipv6_gateway;
}

const LocalAddress* Neighbours::local(const Gid& address) const {
  const auto at = std::find_if(addresses_.begin(), addresses_.end(),
                               [&](const LocalAddress& a) { return a.address == address; });
  return at == addresses_.end() ? nullptr : &*at;
}

/// Returns the source address for requests about `target`: the one with the most leading bits in
/// common, on the same network if possible, else of the same family. Some hosts ignore requests
/// from another network.
const LocalAddress* Neighbours::source_for(const Gid& target) const {
  const LocalAddress* best = nullptr;
  std::size_t best_bits = 0;
  for (const LocalAddress& a : addresses_) {
    if (a.address.is_ipv4() != target.is_ipv4()) continue;
    const std::size_t bits = bits_in_common(a.address, target);
    if (best == nullptr || bits > best_bits) {
      best = &a;
      best_bits = bits;
    }
  }
  return best;
}

std::optional<Gid> Neighbours::next_hop(const Gid& destination) const {
  if (destination.is_multicast() || destination.is_link_local()) return destination;
  for (const LocalAddress& a : addresses_)
    if (on_network_of(a, destination)) return destination;
  const Gid& gateway = destination.is_ipv4() ? gateway4_ : gateway6_;
  if (gateway.is_zero()) return std::nullopt;
  return gateway;
}

void Neighbours::move_to(const MacAddress& mac) {
  options_.mac = mac;
  announce();
}

void Neighbours::announce() {
  for (const LocalAddress& a : addresses_) {
    if (!a.answer) continue;
    const wire::Station self{options_.mac, options_.vlan, a.address};
    // An ARP request for the own address (RFC 5227 3), or an unsolicited advertisement (RFC 4861
    // 7.2.6), which build_advertisement() makes for a solicitation without sender.
    send(a.address.is_ipv4() ? wire::build_arp_request(self, a.address, buffer_)
                             : wire::build_advertisement(self, {.target = a.address}, buffer_));
  }
}

// ---- requests

void Neighbours::send(std::size_t length) { send_({buffer_.data(), length}); }

/// True if the user may send a request. The first user may take all that others leave, and the
/// others still get their share. n users send at most (1 + 1/2 + ... + 1/n) times as many requests
/// as one.
bool Neighbours::may_ask(User& user, Time now) {
  if (now >= window_end_) {
    window_end_ = now + kWindow;
    window_users_ = 0;
  }
  if (user.window_end != window_end_) {
    user.window_end = window_end_;
    user.requests = 0;
    ++window_users_;
  }
  if (user.requests >= std::max(kRequestsPerWindow / window_users_, 1U)) {
    counters_.suppressed.add();
    return false;
  }
  ++user.requests;
  return true;
}

/// Sends the request and sets the time of the next one. In state kProbe the request goes only to
/// the known link address.
void Neighbours::ask(Entry& entry, Time now) {
  const LocalAddress* source = source_for(entry.address);
  if (source == nullptr) {
    entry.due = now + kRetryTime;
    return;
  }
  if (!may_ask(users_[entry.user], now)) {
    entry.due = window_end_;
    return;
  }
  const wire::Station self{options_.mac, options_.vlan, source->address};
  const std::size_t length = entry.address.is_ipv4()
                                 ? wire::build_arp_request(self, entry.address, buffer_)
                                 : wire::build_solicitation(self, entry.address, buffer_);
  if (entry.state == State::kProbe) std::memcpy(buffer_.data(), entry.mac.bytes.data(), kMacLength);
  send(length);
  counters_.requests.add();
  const bool early = entry.state == State::kIncomplete && entry.tries < kFirstRetries.size();
  entry.due = now + (early ? kFirstRetries[entry.tries] : kRetryTime);
  if (entry.tries < UINT8_MAX) ++entry.tries;
}

/// Returns a link address that needs no entry.
std::optional<MacAddress> Neighbours::given(const Gid& next_hop) const {
  if (options_.by_kernel) return MacAddress{};
  if (next_hop.is_multicast()) return wire::multicast_mac(next_hop);
  const auto found = static_.find(next_hop);
  return found == static_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<MacAddress> Neighbours::known(const Gid& next_hop) const {
  if (const auto mac = given(next_hop)) return mac;
  const Entry* entry = find(next_hop);
  if (entry == nullptr || entry->state == State::kIncomplete) return std::nullopt;
  return entry->mac;
}

std::optional<MacAddress> Neighbours::resolve(const Gid& next_hop, Time now, TenantId user) {
  if (const auto mac = given(next_hop)) return mac;
  Entry* entry = find(next_hop);
  if (entry == nullptr) {
    entry = insert(next_hop, now, user);
    if (entry == nullptr) return std::nullopt;
    ask(*entry, now);
    deadline_ = std::min(deadline_, deadline_of(*entry));
    return std::nullopt;
  }
  entry->used = now;
  if (entry->state == State::kIncomplete) {
    // The request is sent at once for the new user: another user with many absent neighbours must
    // not delay it.
    if (entry->tries == 0 && entry->user != user) {
      count(*entry, -1);
      entry->user = user;
      count(*entry, 1);
      ask(*entry, now);
      deadline_ = std::min(deadline_, deadline_of(*entry));
    }
    return std::nullopt;
  }
  if (entry->state == State::kStale || (entry->state == State::kReachable && now >= entry->due))
      [[unlikely]] {
    entry->state = State::kProbe;
    entry->tries = 0;
    ask(*entry, now);
    deadline_ = std::min(deadline_, deadline_of(*entry));
  }
  return entry->mac;
}

// ---- time

Time Neighbours::deadline_of(const Entry& entry) const {
  switch (entry.state) {
    case State::kFree:
      return kNever;
    case State::kIncomplete:
      return std::min(entry.due, entry.used + kUnansweredKept);
    case State::kProbe:
      return entry.due;
    case State::kReachable:
    case State::kStale:
      return entry.used + kAnsweredKept;
  }
  return kNever;
}

void Neighbours::step(Entry& entry, Time now) {
  if (entry.state == State::kIncomplete && now >= entry.used + kUnansweredKept) return erase(entry);
  if (entry.state == State::kIncomplete) return ask(entry, now);
  if (entry.state != State::kProbe) return erase(entry);
  if (entry.tries >= kUnicastProbes) {
    counters_.lost.add();
    ++users_[entry.user].unanswered;
    entry.state = State::kIncomplete;
    entry.tries = 0;
  }
  ask(entry, now);
}

/// If the rate limit suppresses a request, the next run begins with that entry. Otherwise the
/// entries at the front would repeat their requests before those behind have sent any.
void Neighbours::run(Time now) {
  if (now < deadline_) return;
  deadline_ = kNever;
  const std::size_t first = next_to_run_;
  const std::uint64_t suppressed = counters_.suppressed.value();
  bool struck = false;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const std::size_t at = (first + i) % entries_.size();
    Entry& entry = entries_[at];
    if (now >= deadline_of(entry)) step(entry, now);
    deadline_ = std::min(deadline_, deadline_of(entry));
    if (!struck && counters_.suppressed.value() != suppressed) {
      struck = true;
      next_to_run_ = at;
    }
  }
}

// ---- received frames

/// Sets the link address. An answer to a request proves that the neighbour also receives the
/// daemon's frames. An unsolicited message does not (RFC 4861 7.2.5), so the next use checks the
/// neighbour.
void Neighbours::confirm(Entry& entry, const MacAddress& mac, bool solicited, Time now) {
  const bool changed = entry.state == State::kIncomplete || entry.mac != mac;
  if (entry.state == State::kIncomplete) --users_[entry.user].unanswered;
  if (changed) {
    counters_.learned.add();
    entry.mac = mac;
    entry.state = State::kStale;
  }
  if (solicited) {
    entry.state = State::kReachable;
    entry.due = now + kReachableTime;
  }
  deadline_ = std::min(deadline_, deadline_of(entry));
}

bool Neighbours::receive(std::span<const std::byte> frame, Time now) {
  if (const auto arp = wire::parse_arp(frame)) {
    if (arp->vlan == options_.vlan) receive_arp(*arp, now);
    return true;
  }
  if (const auto m = wire::parse_neighbour(frame)) {
    if (m->vlan == options_.vlan) receive_neighbour(*m, now);
    return true;
  }
  return false;
}

/// Handles an ARP message by RFC 826, "Packet Reception", but adds no entry for the sender of a
/// request.
void Neighbours::receive_arp(const wire::ArpMessage& m, Time now) {
  using Operation = wire::ArpMessage::Operation;
  if (m.sender_mac == options_.mac) return;
  if (local(m.sender) != nullptr) {
    counters_.conflicts.add();
  } else if (Entry* entry = find(m.sender)) {
    const bool to_us = m.operation == Operation::kArpReply && m.target_mac == options_.mac;
    confirm(*entry, m.sender_mac, to_us, now);
  }
  const LocalAddress* asked = local(m.target);
  if (m.operation != Operation::kArpRequest || asked == nullptr || !asked->answer) return;
  send(wire::build_arp_reply({options_.mac, options_.vlan, asked->address}, m, buffer_));
  counters_.answers.add();
}

void Neighbours::receive_neighbour(const wire::NeighbourMessage& m, Time now) {
  if (m.source_mac == options_.mac) return;
  if (m.is_advertisement)
    receive_advertisement(m, now);
  else
    receive_solicitation(m, now);
}

/// Handles a solicitation by RFC 4861 7.2.3 and 7.2.4.
void Neighbours::receive_solicitation(const wire::NeighbourMessage& m, Time now) {
  const LocalAddress* asked = local(m.target);
  if (asked == nullptr) return;
  if (m.link && local(m.source) == nullptr)
    if (Entry* entry = find(m.source)) confirm(*entry, *m.link, false, now);
  if (!asked->answer) return;
  send(wire::build_advertisement({options_.mac, options_.vlan, asked->address}, m, buffer_));
  counters_.answers.add();
}

/// Handles an advertisement by RFC 4861 7.2.5.
void Neighbours::receive_advertisement(const wire::NeighbourMessage& m, Time now) {
  if (local(m.target) != nullptr) {
    counters_.conflicts.add();
    return;
  }
  Entry* entry = find(m.target);
  if (entry == nullptr) return;
  if (entry->state == State::kIncomplete && !m.link) return;
  const MacAddress mac = m.link.value_or(entry->mac);
  if (entry->state != State::kIncomplete && !m.overrides && mac != entry->mac) {
    if (entry->state == State::kReachable) entry->state = State::kStale;
    return;
  }
  confirm(*entry, mac, m.solicited, now);
}

}  // namespace softhca::neighbour
