// Does the peer say nothing any more? Some retries without an answer may well be lost on the way.
#pragma once

#include <algorithm>
#include <cstdint>

namespace softhca::transport {

class Silence {
 public:
  /// One more without an answer: an early retry, or the timeout has come.
  void early_retry() { add(1); }
  void timeout() { add(kTimeout); }
  /// The peer has answered.
  void end() { retries_ = 0; }
  bool is_long() const { return retries_ >= kMany; }

 private:
  static constexpr unsigned kMany = 3;
  static constexpr unsigned kTimeout = 2;  ///< two of them are many

  void add(unsigned retries) {
    retries_ = static_cast<std::uint8_t>(std::min(retries_ + retries, kMany));
  }

  std::uint8_t retries_ = 0;  ///< no more than are many
};

}  // namespace softhca::transport
