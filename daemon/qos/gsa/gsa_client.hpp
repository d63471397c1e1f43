// SPDX-License-Identifier: Apache-2.0

// A client of a receive pool: its key, its counters, and its representation for operators.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "daemon/base/counter.hpp"
#include "daemon/base/fixed_pool.hpp"
#include "daemon/base/net.hpp"
#include "daemon/base/time.hpp"
#include "daemon/base/token_bucket.hpp"
#include "daemon/base/types.hpp"

namespace softhca::management::gsa {

/// Identifies the client of a datagram. The user of the pool defines its contents: on queue pair 1
/// the management class, and the address if tenants have their own agents.
using ClientKey = Id<struct ClientKeyTag, std::uint64_t>;

/// A registration. It becomes stale when the client is deregistered.
using ClientId = PoolHandle;

/// Why a datagram got no buffer.
enum class Discard : std::uint8_t {
  kNone,             ///< it got a buffer
  kNoClient,         ///< no client is registered for its class
  kOverQuota,        ///< its client holds its whole share, and no buffer is spare
  kSourceOverQuota,  ///< its source holds its part of the client's share, and may not borrow more
  kSourceOverRate,   ///< its source exceeds its rate
  kNewSourcesOver,   ///< the new sources of the client together exceed their part or their rate
  kExhausted,        ///< its client may have one, but buffers granted recently are still in use
};
inline constexpr std::size_t kDiscards = 7;
/// Returns its name in metrics and for operators.
const char* name_of(Discard cause);

/// The owner of the pool writes them; any thread reads them.
struct ClientCounters {
  Counter received;                          ///< datagrams that got a buffer
  std::array<Counter, kDiscards> discarded;  ///< by cause
  Counter raised;                            ///< times its share was raised (E4)
  Counter lowered;                           ///< times a raised share was lowered
  Gauge held;                                ///< buffers it holds
  Gauge held_high_water;                     ///< most at once
  Gauge asked;                               ///< buffers it asked for, or the default
  Gauge share;                               ///< buffers posted for it, its quota

  /// Adds the totals of another client, without its current values.
  void add_totals(const ClientCounters& other) {
    received.add(other.received.value());
    for (std::size_t i = 0; i < kDiscards; ++i) discarded[i].add(other.discarded[i].value());
    raised.add(other.raised.value());
    lowered.add(other.lowered.value());
  }
};

/// Counters of the pool. The owner of the pool writes them; any thread reads them.
struct PoolCounters {
  Gauge clients;
  Gauge posted;  ///< buffers waiting for datagrams
  Gauge in_use;  ///< buffers that clients hold
  Gauge in_use_high_water;
  Gauge added;          ///< posted or in use beyond the shares, because of the low threshold (E3)
  Counter posted_more;  ///< buffers added for this reason
  Counter removed;      ///< buffers removed again above the high threshold
  Counter raised;       ///< shares raised (E4)
  Counter lowered;
  std::array<Counter, kDiscards> discarded;
};

/// A change of a client's share by the agent itself (E4), of which the client is notified.
struct ShareChange {
  ClientId client;
  ClientKey key;
  std::uint32_t old_share = 0;
  std::uint32_t new_share = 0;
};

/// A client, for operators.
struct ClientView {
  ClientId id;
  ClientKey key;
  std::string name;
  std::uint32_t borrowed = 0;  ///< buffers it holds beyond its share
  ClientCounters counters;
};

/// A source of a client, for operators.
struct SourceView {
  ClientKey client;
  Gid source;
  bool established = false;
  std::uint32_t held = 0;
  std::uint64_t recent = 0;  ///< datagrams in this window and the previous one
  std::uint64_t received = 0;
  std::uint64_t discarded = 0;
};

}  // namespace softhca::management::gsa
