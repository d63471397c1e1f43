// SPDX-License-Identifier: Apache-2.0

// The operator's parameters of a receive pool that several clients share (mechanisms E1 to E6). All
// can be changed while the pool is in use.
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/base/time.hpp"
#include "daemon/base/token_bucket.hpp"

namespace softhca::management::gsa {

/// Limits of one source (the host of a GID) at one client (E5).
struct SourceLimits {
  /// Part of its client's share that one source may hold while other sources send to that client,
  /// and part of the spare buffers that it may borrow. Above 0, at most 1.
  double part = 0.5;
  /// Datagrams per second from one source to one client; 0: no limit.
  Rate rate{.per_second = 10'000, .burst = 1'000};
  /// Like `part` and `rate`, for all new sources of one client together: made-up sources are new.
  double new_part = 0.5;
  Rate new_rate{.per_second = 10'000, .burst = 1'000};
  /// A source becomes established if it still sends this long after its first datagram.
  Duration probation = std::chrono::seconds(1);
  /// An established source may be replaced by another one after this long without a datagram.
  Duration forget_after = std::chrono::seconds(30);

  bool operator==(const SourceLimits&) const = default;
};

/// How a client's share follows its traffic (E4).
struct ShareAdjustment {
  /// Time over which traffic is observed before it is judged.
  Duration window = std::chrono::seconds(1);
  /// A client that was short in this many of the last 8 windows gets more; 0: never.
  std::uint32_t raise_after = 3;
  /// A client that used at most half its share in this many consecutive windows gets less, but
  /// never less than it asked for.
  std::uint32_t lower_after = 8;
  /// The share grows to at most this many times what the client asked for.
  std::uint32_t most = 4;

  bool operator==(const ShareAdjustment&) const = default;
};

struct Parameters {
  std::uint32_t buffers = 1024;           ///< most in use and posted together
  std::uint32_t buffers_per_client = 16;  ///< for a client that gives no number (E1)
  /// If fewer buffers are posted, more are posted (E3). Empty: a quarter of what the clients asked
  /// for.
  std::optional<std::uint32_t> low_threshold;
  /// If more buffers are posted, the added ones are removed (E3). Empty: all that the clients asked
  /// for.
  std::optional<std::uint32_t> high_threshold;
  SourceLimits sources;
  ShareAdjustment adjustment;

  bool operator==(const Parameters&) const = default;
};

}  // namespace softhca::management::gsa
