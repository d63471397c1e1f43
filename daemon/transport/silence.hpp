// Does the peer say nothing any more? Some retries without an answer may well be lost on the way.
#pragma once

namespace softhca::transport {

class Silence {
 public:
  /// One more without an answer: an early retry, or the timeout has come.
  void early_retry() { retries_ += 1; }
  void timeout() { retries_ += kTimeout; }
  /// The peer has answered.
  void end() { retries_ = 0; }
  bool is_long() const { return retries_ >= kMany; }

 private:
  static constexpr unsigned kMany = 3;
  static constexpr unsigned kTimeout = 2;  ///< two of them are many

  unsigned retries_ = 0;
};

}  // namespace softhca::transport
