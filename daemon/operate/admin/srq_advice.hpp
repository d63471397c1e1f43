// SPDX-License-Identifier: Apache-2.0

// Advice on a shared receive queue, in words: whether it is long enough, which queue pairs take too
// much of it, and which setting would help (mechanisms D1, D4).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/base/types.hpp"

namespace softhca::control {

/// A queue pair that drew lately.
struct SrqUser {
  Qpn qpn;
  std::string peer;  ///< address; empty: none
  std::uint32_t held = 0;
  std::uint32_t limit = 0;  ///< 0: none
  bool soft = false;
  bool quarantined = false;
  bool own_limit = false;  ///< set by softhcactl qp set
  std::uint8_t rule = 0;   ///< rule of the configuration, from 1; 0: none matches
  /// Its draws among those counted lately, if they are more than half of them; else 0.
  std::uint32_t draws = 0;
};

struct SrqFigures {
  std::uint32_t queue_pairs = 0;
  std::uint32_t size = 0;            ///< as the program requested
  std::uint32_t most_available = 0;  ///< most receives seen in it
  std::uint32_t peak = 0;            ///< most receives drawn and not posted again, at once
  std::uint64_t draws = 0;
  std::uint64_t empty = 0;         ///< attempts that found no receive
  std::uint32_t most_waiting = 0;  ///< most queue pairs that found none in one starvation
  std::uint64_t refused = 0;       ///< attempts refused by limits
  std::uint32_t lately = 0;        ///< draws counted lately
  std::vector<SrqUser> users;      ///< queue pairs of the ranking
};

/// Returns a sentence for each finding; none before the first message.
std::vector<std::string> advice_on(const SrqFigures& figures);

}  // namespace softhca::control
