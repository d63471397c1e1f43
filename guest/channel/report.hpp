// SPDX-License-Identifier: Apache-2.0

// Messages for the operator on standard error.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

namespace softhca::guest {

/// Programs and the other end of the channel can cause messages. So it writes at most one a second,
/// and the same one once a minute, and says how many it has left out.
class Report {
 public:
  explicit Report(std::string program) : program_(std::move(program)) {}

  void operator()(const std::string& message);

 private:
  std::string program_;
  std::string latest_;     ///< message
  std::int64_t at_ = -60;  ///< when it was written, in s
  std::uint64_t left_out_ = 0;
};

}  // namespace softhca::guest
