// SPDX-License-Identifier: Apache-2.0

// Detects that the peer no longer answers. A few answers may be lost on the way, so one unanswered
// retry does not count as silence.
#pragma once

#include <algorithm>
#include <cstdint>

namespace softhca::transport {

class Silence {
 public:
  /// Counts an unanswered early retry or timeout.
  void early_retry() { add(1); }
  void timeout() { add(kTimeout); }
  /// Records that the peer has answered.
  void end() { retries_ = 0; }
  bool is_long() const { return retries_ >= kMany; }

 private:
  static constexpr unsigned kMany = 3;
  static constexpr unsigned kTimeout = 2;  ///< two timeouts are enough

  void add(unsigned retries) {
    retries_ = static_cast<std::uint8_t>(std::min(retries_ + retries, kMany));
  }

  std::uint8_t retries_ = 0;  ///< at most kMany
};

}  // namespace softhca::transport
