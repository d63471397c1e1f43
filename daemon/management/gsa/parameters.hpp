// The operator's parameters of a receive pool that several clients share (mechanisms E1 to E6).
// Everything can be changed while the pool is in use.
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/base/time.hpp"
#include "daemon/base/token_bucket.hpp"

namespace softhca::management::gsa {

/// What one source (the host of a GID) may use of a client (E5).
struct SourceLimits {
  /// Part of its client's share that one source may hold while other sources send to that client,
  /// and part of the spare buffers that it may borrow; above 0, at most 1.
  double part = 0.5;
  /// Datagrams a second of one source to one client; 0: no limit.
  Rate rate{.per_second = 10'000, .burst = 1'000};
  /// As `part` and `rate` above, for all new sources of one client together: made-up sources are
  /// new.
  double new_part = 0.5;
  Rate new_rate{.per_second = 10'000, .burst = 1'000};
  /// A source is established when it still sends so long after its first datagram.
  Duration probation = std::chrono::seconds(1);
  /// An established source may lose its place to another one after so long without a datagram.
  Duration forget_after = std::chrono::seconds(30);

  bool operator==(const SourceLimits&) const = default;
};

/// How a client's share follows its traffic (E4).
struct ShareAdjustment {
  /// Time over which traffic is watched before it is judged.
  Duration window = std::chrono::seconds(1);
  /// A client that was short in so many of the last 8 windows is given more; 0: never.
  std::uint32_t raise_after = 3;
  /// A client that used at most half its share in so many windows in a row is given less, though
  /// never less than it asked for.
  std::uint32_t lower_after = 8;
  /// The share grows to at most so many times what the client asked for.
  std::uint32_t most = 4;

  bool operator==(const ShareAdjustment&) const = default;
};

struct Parameters {
  std::uint32_t buffers = 1024;           ///< at most in use and posted together
  std::uint32_t buffers_per_client = 16;  ///< of a client that names no number (E1)
  /// Posted buffers below which more are posted (E3). None: a quarter of what the clients asked
  /// for.
  std::optional<std::uint32_t> low_threshold;
  /// Posted buffers above which what was added is removed (E3). None: all the clients asked for.
  std::optional<std::uint32_t> high_threshold;
  SourceLimits sources;
  ShareAdjustment adjustment;

  bool operator==(const Parameters&) const = default;
};

}  // namespace softhca::management::gsa
