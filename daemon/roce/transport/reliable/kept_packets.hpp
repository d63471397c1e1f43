// SPDX-License-Identifier: Apache-2.0

// Out-of-order buffer: request packets that arrived ahead of a lost one are buffered until that one
// is retransmitted (mechanism D3). The peer notices only that the acknowledgement then covers all
// of them.
//
// The buffer holds copies, and does not place data: a packet takes no effect before its turn, and a
// dropped packet leaves no trace. All connections of an engine share a store of fixed size. Its
// memory is used only as far as packets have been in it.
//
// Three limits bound what a peer can make the engine buffer. A connection has a threshold: packets
// farther ahead are dropped. A tenant and the engine have watermarks: reaching one drops all
// packets of that tenant, or of the tenant with most packets. So a peer that never closes a gap
// loses its own packets and does not block others. Dropping costs only a retransmission.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daemon/base/counter.hpp"
#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/linked_list.hpp"
#include "daemon/base/types.hpp"
#include "daemon/roce/transport/incoming_message.hpp"
#include "daemon/roce/wire/headers.hpp"

namespace softhca::transport {

class KeptAccount;
class KeptStore;

/// The packets that one responder has buffered: copies in the store, found by holder and PSN, and
/// listed by account. REQUIRES: close() before store or account are destroyed.
class KeptPackets {
 public:
  KeptPackets() = default;
  KeptPackets(const KeptPackets&) = delete;
  KeptPackets& operator=(const KeptPackets&) = delete;

  void open(KeptStore& store, KeptAccount& account);
  void close();
  bool is_open() const { return account_ != nullptr; }

  bool empty() const { return size_ == 0; }
  std::uint32_t size() const { return size_; }
  /// Returns the PSN farthest ahead. REQUIRES: !empty().
  Psn last() const { return last_; }

  /// Buffers a copy, unless the packet is buffered already. Returns false if the buffer is full or
  /// a watermark was reached.
  bool keep(const RequestPacket& packet);
  /// A buffered packet. Its references are valid until the next call of a member that is not const.
  struct Packet {
    const wire::Headers* h = nullptr;
    std::span<const std::byte> payload;
  };
  /// Finds the buffered packet with this PSN. Returns false if there is none.
  bool find(Psn psn, Packet& out) const;
  /// Drops the packets in [first, end).
  void forget(Psn first, Psn end);
  void clear();

 private:
  friend class KeptAccount;
  friend class KeptStore;

  void drop(std::uint32_t index);

  KeptAccount* account_ = nullptr;
  std::uint32_t size_ = 0;
  Psn last_;

  struct Place {
    wire::Headers headers;
    KeptPackets* holder = nullptr;
    IndexLink link;                  ///< in `places_` of its account
    std::uint32_t chain = kNoIndex;  ///< next in its bucket, or in the free list
    std::uint32_t length = 0;
  };
};

/// The packets that the connections of one tenant have buffered together.
class KeptAccount {
 public:
  static constexpr std::uint32_t kNoWatermark = 0xffffffff;
  /// Sets the watermark: a packet that would exceed it drops all of the tenant's packets; 0:
  /// buffers none.
  void set_watermark(std::uint32_t packets) { watermark_ = packets; }
  std::uint32_t watermark() const { return watermark_; }

  Gauge held;        ///< packets now
  Counter kept;      ///< packets
  Counter given_up;  ///< packets dropped at a watermark

 private:
  friend class KeptPackets;
  friend class KeptStore;

  void give_up();

  std::uint32_t watermark_ = kNoWatermark;
  IndexList<KeptPackets::Place, &KeptPackets::Place::link> places_;
  KeptStore* store_ = nullptr;  ///< set by the first responder
  ListLink<KeptAccount> of_store_;
};

/// Storage for the buffered packets of all connections of an engine.
class KeptStore {
 public:
  /// Longest payload of a packet.
  static constexpr std::uint32_t kPlaceBytes = 4096;

  KeptStore() = default;
  KeptStore(const KeptStore&) = delete;
  KeptStore& operator=(const KeptStore&) = delete;

  /// Allocates; the only call that does. Call it once.
  void open(std::uint32_t places);
  std::uint32_t places() const { return places_; }
  /// Sets the watermark: a packet that would exceed it drops all packets of the tenant with most.
  void set_watermark(std::uint32_t packets) { watermark_ = packets; }
  std::uint32_t held() const { return held_; }

 private:
  friend class KeptAccount;
  friend class KeptPackets;
  using Place = KeptPackets::Place;

  bool make_room(KeptAccount& account);
  std::uint32_t take();
  void give_back(std::uint32_t index);
  std::uint32_t& bucket_of(const KeptPackets& holder, Psn psn);
  std::uint32_t find(const KeptPackets& holder, Psn psn);
  void insert(std::uint32_t index);
  void remove(std::uint32_t index);
  Place* table() { return reinterpret_cast<Place*>(table_.get()); }
  std::byte* bytes_of(std::uint32_t index) {
    return bytes_.get() + std::size_t{index} * kPlaceBytes;
  }

  std::uint32_t places_ = 0;
  std::uint32_t watermark_ = KeptAccount::kNoWatermark;
  std::uint32_t held_ = 0;
  std::uint32_t fresh_ = 0;        ///< this place and those behind it were never taken
  std::uint32_t free_ = kNoIndex;  ///< the place given back last
  // Not initialized: that would touch their pages.
  std::unique_ptr<std::byte[]> table_;
  std::unique_ptr<std::byte[]> bytes_;
  std::vector<std::uint32_t> buckets_;  ///< by holder and PSN; a power of two
  LinkedList<KeptAccount, &KeptAccount::of_store_> accounts_;  ///< those that hold packets
};

}  // namespace softhca::transport
