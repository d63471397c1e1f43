// A client of a receive pool: its key, its counters, and what operators see of it.
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

/// Identifies the client that a datagram is for. The user of the pool decides what it is made of:
/// on queue pair 1 the management class, and the address if tenants have agents of their own.
using ClientKey = Id<struct ClientKeyTag, std::uint64_t>;

/// A registration. Stale after the client is deregistered.
using ClientId = PoolHandle;

/// Why a datagram was not given a buffer.
enum class Discard : std::uint8_t {
  kNone,             ///< it was given one
  kNoClient,         ///< nobody registered for its class
  kOverQuota,        ///< its client holds its share, and no buffer is spare
  kSourceOverQuota,  ///< its source holds its part of the client's share, and may borrow no more
  kSourceOverRate,   ///< its source sends more often than it may
  kNewSourcesOver,   ///< the client's new sources together are over their part or their rate
  kExhausted,        ///< its client may have one, but those it was given lately are still in use
};
inline constexpr std::size_t kDiscards = 7;
/// The word for it in metrics and for the operator.
const char* name_of(Discard cause);

/// Written by the owner of the pool, read by any thread.
struct ClientCounters {
  Counter received;                          ///< datagrams given a buffer
  std::array<Counter, kDiscards> discarded;  ///< by cause
  Counter raised;                            ///< times its share was raised (E4)
  Counter lowered;                           ///< times a raised share was lowered
  Gauge held;                                ///< buffers it holds
  Gauge held_high_water;                     ///< most at once
  Gauge asked;                               ///< buffers it asked for, or the default
  Gauge share;                               ///< buffers posted for it: its quota

  /// Adds what another client counted, without what it has now.
  void add_totals(const ClientCounters& other) {
    received.add(other.received.value());
    for (std::size_t i = 0; i < kDiscards; ++i) discarded[i].add(other.discarded[i].value());
    raised.add(other.raised.value());
    lowered.add(other.lowered.value());
  }
};

/// Counters of the pool. Written by the owner of the pool, read by any thread.
struct PoolCounters {
  Gauge clients;
  Gauge posted;  ///< buffers that wait for datagrams
  Gauge in_use;  ///< buffers that clients hold
  Gauge in_use_high_water;
  Gauge added;          ///< posted or in use beyond the shares, by the low threshold (E3)
  Counter posted_more;  ///< buffers so added
  Counter removed;      ///< and removed again above the high threshold
  Counter raised;       ///< shares raised (E4)
  Counter lowered;
  std::array<Counter, kDiscards> discarded;
};

/// The agent changed a client's share on its own (E4), which the client is to be told.
struct ShareChange {
  ClientId client;
  ClientKey key;
  std::uint32_t old_share = 0;
  std::uint32_t new_share = 0;
};

/// A client, for the operator.
struct ClientView {
  ClientId id;
  ClientKey key;
  std::string name;
  std::uint32_t borrowed = 0;  ///< buffers it holds beyond its share
  ClientCounters counters;
};

/// A source of a client, for the operator.
struct SourceView {
  ClientKey client;
  Gid source;
  bool established = false;
  std::uint32_t held = 0;
  std::uint64_t recent = 0;  ///< datagrams in this window and the one before
  std::uint64_t received = 0;
  std::uint64_t discarded = 0;
};

}  // namespace softhca::management::gsa
