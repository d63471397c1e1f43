// Request packets that came before their turn: a packet between was lost, and what came behind it
// is kept until that one has been sent again (mechanism D3). The peer cannot tell, but for the
// acknowledgement, which then covers all at once.
//
// Copies are kept, not data at its place: nothing that a peer sends takes effect before its turn,
// whatever it is, and what is given up leaves no trace. They lie in a store of fixed size for all
// connections of an engine, whose memory is in use only as far as packets have been in it.
//
// How much a peer can make us keep is bounded three times: for a connection by its threshold (what
// is farther ahead is dropped), for a tenant and for all by a watermark, where everything is given
// up, of that tenant or of the tenant that holds most. A peer that leaves a gap for ever so loses
// what it holds, instead of keeping others from it. Giving up costs a retransmission only.
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
#include "daemon/transport/incoming_message.hpp"
#include "daemon/wire/headers.hpp"

namespace softhca::transport {

class KeptAccount;
class KeptStore;

/// What one responder keeps: copies in the store, found by holder and number, and listed by
/// account. REQUIRES: close() before store or account go.
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
  /// The packet farthest ahead. REQUIRES: !empty().
  Psn last() const { return last_; }

  /// Keeps a copy, unless it has one; false: there is no room, or it had to be given up.
  bool keep(const RequestPacket& packet);
  /// Puts the packet with this PSN into `out`, whose references last until the next call of a
  /// member that is not const; false: there is none.
  struct Packet {
    const wire::Headers* h = nullptr;
    std::span<const std::byte> payload;
  };
  bool find(Psn psn, Packet& out) const;
  /// Those in [first, end) are no longer wanted.
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
    std::uint32_t chain = kNoIndex;  ///< the next in its bucket, or of the free ones
    std::uint32_t length = 0;
  };
};

/// What the connections of one tenant keep together.
class KeptAccount {
 public:
  static constexpr std::uint32_t kNoWatermark = 0xffffffff;
  /// Where this many packets would be exceeded all are given up; 0: none is kept.
  void set_watermark(std::uint32_t packets) { watermark_ = packets; }
  std::uint32_t watermark() const { return watermark_; }

  Gauge held;        ///< packets, at present
  Counter kept;      ///< packets
  Counter given_up;  ///< of them: by a watermark

 private:
  friend class KeptPackets;
  friend class KeptStore;

  void give_up();

  std::uint32_t watermark_ = kNoWatermark;
  IndexList<KeptPackets::Place, &KeptPackets::Place::link> places_;
  KeptStore* store_ = nullptr;  ///< written by the first responder
  ListLink<KeptAccount> of_store_;
};

/// Room for what all connections of an engine keep.
class KeptStore {
 public:
  /// Longest payload of a packet.
  static constexpr std::uint32_t kPlaceBytes = 4096;

  KeptStore() = default;
  KeptStore(const KeptStore&) = delete;
  KeptStore& operator=(const KeptStore&) = delete;

  /// To be called once; the only call that allocates.
  void open(std::uint32_t places);
  std::uint32_t places() const { return places_; }
  /// Where this many packets would be exceeded, the tenant that holds most gives up all of its.
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
  std::uint32_t fresh_ = 0;        ///< never taken: this place and those behind it
  std::uint32_t free_ = kNoIndex;  ///< given back last
  // Not initialised: that would touch their pages.
  std::unique_ptr<std::byte[]> table_;
  std::unique_ptr<std::byte[]> bytes_;
  std::vector<std::uint32_t> buckets_;  ///< by holder and PSN; a power of two
  LinkedList<KeptAccount, &KeptAccount::of_store_> accounts_;  ///< which hold something
};

}  // namespace softhca::transport
