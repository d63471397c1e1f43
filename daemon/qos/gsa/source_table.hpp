// SPDX-License-Identifier: Apache-2.0

// The sources of the datagrams of a receive pool (mechanism E5): one entry for each client and GID
// that sent recently, in a table of fixed size.
//
// Source addresses can be made up, so an entry must not be worth much until its source has kept it
// up for a while:
//
// - A source that sends for the first time is new, and replaces the new source that sent least
//   recently. All new sources of a client together have one part and one rate.
// - A source that still sends after its probation becomes established. At most half of the entries
//   are for established sources. A source that sent within forget_after is never replaced.
// - A source that its client has vouched for, since it answered at its address, is established at
//   once. It is replaced only by another such source; these have a quarter of the entries.
//
// So a flood of 100,000 made-up addresses, each used once or twice, replaces only new sources. A
// host that keeps up more addresses than the table has entries, each longer than the probation,
// prevents others from becoming established. Established sources stay so.
//
// An entry is never replaced while its source holds buffers. Pure; allocates only at set-up.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "daemon/base/intrusive_queue.hpp"
#include "daemon/base/net.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/token_bucket.hpp"
#include "daemon/qos/gsa/gsa_client.hpp"
#include "daemon/qos/gsa/receive_parameters.hpp"

namespace softhca::management::gsa {

struct Source {
  IndexLink link;  ///< in a list of SourceTable, unless it holds buffers
  std::uint32_t next_in_bucket = kNoIndex;
  ClientId client;
  Gid gid;
  bool established = false;
  bool vouched_for = false;    ///< also established
  std::uint32_t own = 0;       ///< buffers it holds of its client's share
  std::uint32_t borrowed = 0;  ///< spare buffers it holds
  TokenBucket rate;
  Time first_seen{};
  Time last_seen{};
  std::uint64_t received = 0;
  std::uint64_t discarded = 0;
  std::uint32_t window = 0;  ///< window that `recent` counts
  std::uint32_t recent = 0;
  std::uint32_t recent_before = 0;  ///< in the previous window

  std::uint32_t held() const { return own + borrowed; }
  /// Returns the datagrams in window `now` and the previous one.
  std::uint64_t recent_in(std::uint32_t now) const {
    if (window == now) return std::uint64_t{recent} + recent_before;
    return window + 1 == now ? recent : 0;
  }
};

class SourceTable {
 public:
  using Seed = std::array<std::uint64_t, 2>;

  /// `places`: at least 2. Allocates.
  SourceTable(std::uint32_t places, const Seed& seed);

  /// Records a datagram. Returns the entry of its source, which is made if necessary. Returns
  /// kNoIndex if the sources of all entries hold buffers or are established.
  std::uint32_t note_datagram(ClientId client, const Gid& gid, const SourceLimits& limits, Time now,
                              std::uint32_t window);

  /// Marks the source as established: the client has verified its address.
  void vouch(ClientId client, const Gid& gid, Time now);

  /// Records that the source got a buffer, of its client's share or a borrowed one.
  void take(std::uint32_t source, bool borrowed);
  /// Records that the source gave one back.
  void give_back(std::uint32_t source, bool borrowed);

  Source& operator[](std::uint32_t i) { return sources_[i]; }
  const Source& operator[](std::uint32_t i) const { return sources_[i]; }
  const std::vector<Source>& places() const { return sources_; }
  std::uint32_t established() const { return established_count_; }

 private:
  using List = IndexList<Source, &Source::link>;

  std::uint32_t& bucket_of(ClientId client, const Gid& gid);
  std::uint32_t find(ClientId client, const Gid& gid);
  std::uint32_t add(ClientId client, const Gid& gid, Time now);
  void forget(std::uint32_t i);
  void establish(std::uint32_t i, const SourceLimits& limits, Time now);
  List& list_of(const Source& source) {
    if (source.vouched_for) return vouched_for_;
    return source.established ? established_ : new_;
  }

  Seed seed_;
  std::vector<Source> sources_;
  std::vector<std::uint32_t> buckets_;  ///< first entry of each chain
  List free_;
  List new_;                             ///< hold no buffers; least recent first
  List established_;                     ///< hold no buffers; least recent first
  List vouched_for_;                     ///< hold no buffers; least recent first
  std::uint32_t established_count_ = 0;  ///< without those vouched for
  std::uint32_t vouched_for_count_ = 0;
};

}  // namespace softhca::management::gsa
