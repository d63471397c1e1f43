// Admission: a tenant's guarantees carry so many connections, and no more begin. Each is counted
// for the level of the program that connects or listens: it is carried by what the level has of its
// own, or, where the level shares, by what no level has of its own.
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

class Admission {
 public:
  static constexpr std::uint32_t kAll = std::numeric_limits<std::uint32_t>::max();

  /// What carries connections: a level, or (no name) what no level has of its own.
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

  /// `most`: connections of all parts together. Connections that were admitted stay; those of a
  /// level that is no longer a part are carried by what no level has.
  void set(const std::vector<Part>& parts, std::uint32_t most);

  /// The level has another name now. REQUIRES: nothing is known of that name, and neither is empty.
  void rename(const std::string& from, const std::string& to);

  /// One more connection of a level (no name: of none). False: it is not carried, which is counted.
  bool take(const std::string& level);
  /// As take(), for a request of a peer, which is half-open until close_half(). A peer that is
  /// alone may have all that is free; a peer beside others may have as many half-open ones as it
  /// leaves to them. kLater: not now, but the half-open ones that are in the way do not last.
  enum class Verdict : std::uint8_t { kTaken, kNotCarried, kLater };
  Verdict take_half_open(const std::string& level, const Gid& peer, Time now) {
    return take_half_open(level, peer, peer, now);
  }
  /// `counted_as`: peers whose half-open connections count together.
  Verdict take_half_open(const std::string& level, const Gid& peer, const Gid& counted_as,
                         Time now);
  /// The peer has answered, or the request is over. REQUIRES: a half-open one was taken that counts
  /// as this peer's.
  void close_half(const std::string& level, const Gid& peer);
  /// REQUIRES: a connection was taken, and is not half-open.
  void give_back(const std::string& level);

  std::uint32_t admitted() const { return admitted_; }
  std::uint32_t most() const { return most_; }
  /// By names of levels, what no level has first.
  std::vector<View> view() const;

 private:
  struct Entry {
    std::uint32_t carries = 0;
    bool shares = true;
    bool is_part = false;
    std::uint32_t admitted = 0;
    std::uint32_t half_open = 0;  ///< of these
    std::uint64_t refused = 0;
  };
  /// How many more a level may have.
  std::uint32_t room(const std::string& level, const Entry& entry) const;
  std::uint32_t beyond_levels() const;
  bool others_ask(const Gid& peer, Time now);

  std::map<std::string, Entry> entries_{{"", {.carries = kAll, .is_part = true}}};
  std::uint32_t most_ = kAll;
  std::uint32_t admitted_ = 0;
  std::map<std::pair<std::string, Gid>, std::uint32_t> half_open_;  ///< of those that have any
  struct Asked {
    Gid peer;
    Time at{};
  };
  std::optional<Asked> latest_;  ///< the peer that asked last
  std::optional<Asked> before_;  ///< and the latest of the others
};

}  // namespace softhca::management::rdma_cm
