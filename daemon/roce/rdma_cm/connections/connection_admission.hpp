// SPDX-License-Identifier: Apache-2.0

// Admission: limits the connections of a tenant to the number that its guarantees support. Each
// connection counts for the level of the program that connects or listens. The level's own
// guarantee supports it. If the level shares, the part that belongs to no level supports it too.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/net.hpp"
#include "daemon/base/time.hpp"

namespace softhca::management::rdma_cm {

class ConnectionAdmission {
 public:
  static constexpr std::uint32_t kAll = std::numeric_limits<std::uint32_t>::max();

  /// A part that supports connections: a level, or (empty name) the part that belongs to no level.
  struct Part {
    std::string level;
    std::uint32_t carries = kAll;
    bool shares = true;
  };
  struct View {
    std::string level;
    std::uint32_t carries = kAll;
    std::uint32_t admitted = 0;
    std::uint64_t refused = 0;
  };

  /// Sets the parts. `most`: connections of all parts together. Admitted connections stay. Those of
  /// a level that is no longer a part then count for the part that belongs to no level.
  void set(const std::vector<Part>& parts, std::uint32_t most);

  /// Renames a level. REQUIRES: `to` is unknown, and neither name is empty.
  void rename(const std::string& from, const std::string& to);

  /// Admits one more connection of a level (empty name: of none). Returns false, and counts a
  /// refusal, if it is not supported.
  bool take(const std::string& level);
  /// Like take(), for a request of a peer, which is half-open until close_half(). A peer that is
  /// alone may use all that is free. A peer beside others may have as many half-open connections as
  /// it leaves to them. kLater: not now, but the half-open connections in the way will end soon.
  enum class Verdict : std::uint8_t { kTaken, kNotCarried, kLater };
  Verdict take_half_open(const std::string& level, const Gid& peer, Time now) {
    return take_half_open(level, peer, peer, now);
  }
  /// `counted_as`: peers with the same value count together.
  Verdict take_half_open(const std::string& level, const Gid& peer, const Gid& counted_as,
                         Time now);
  /// Ends the half-open state, because the peer has answered or the request is over. REQUIRES:
  /// take_half_open() counted a connection for this peer.
  void close_half(const std::string& level, const Gid& peer);
  /// Counts a connection that was admitted before, even beyond what is supported. `half_open`: as
  /// `counted_as` of take_half_open(); nothing: it is not half-open.
  void restore(const std::string& level, const std::optional<Gid>& half_open);
  /// Removes a connection. REQUIRES: it was admitted and is not half-open.
  void give_back(const std::string& level);

  std::uint32_t admitted() const { return admitted_; }
  std::uint32_t most() const { return most_; }
  /// Returns the parts by level name; the part that belongs to no level is first.
  std::vector<View> view() const;

 private:
  struct Entry {
    std::uint32_t carries = 0;
    bool shares = true;
    bool is_part = false;
    std::uint32_t admitted = 0;
    std::uint32_t half_open = 0;  ///< part of `admitted`
    std::uint64_t refused = 0;
  };
  /// Returns how many more connections a level may have.
  std::uint32_t room(const std::string& level, const Entry& entry) const;
  std::uint32_t beyond_levels() const;
  bool others_ask(const Gid& peer, Time now);

  std::map<std::string, Entry> entries_{{"", {.carries = kAll, .is_part = true}}};
  std::uint32_t most_ = kAll;
  std::uint32_t admitted_ = 0;
  std::map<std::pair<std::string, Gid>, std::uint32_t> half_open_;  ///< for those that have any
  struct Asked {
    Gid peer;
    Time at{};
  };
  std::optional<Asked> latest_;  ///< the peer that sent the latest request
  std::optional<Asked> before_;  ///< the latest request of any other peer
};

}  // namespace softhca::management::rdma_cm
