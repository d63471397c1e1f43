// SPDX-License-Identifier: Apache-2.0

// Adjusts shares to the traffic (mechanism E4). A client that was regularly short of buffers gets
// more; one that used few of them gets less, but never less than it asked for. Pure.
#pragma once

#include <cstdint>

#include "daemon/base/time.hpp"
#include "daemon/qos/gsa/client_table.hpp"
#include "daemon/qos/gsa/receive_parameters.hpp"
#include "daemon/qos/gsa/shares.hpp"

namespace softhca::management::gsa {

class ShareAdjuster {
 public:
  /// All outlive it.
  ShareAdjuster(const ShareAdjustment& parameters, ClientTable& clients, Shares& shares, Time now)
      : parameters_(parameters),
        clients_(clients),
        shares_(shares),
        next_(now + parameters.window) {}
  ShareAdjuster(const ShareAdjuster&) = delete;
  ShareAdjuster& operator=(const ShareAdjuster&) = delete;

  /// Returns when the window ends.
  Time next() const { return next_; }
  /// Returns the number of the current window.
  std::uint32_t window() const { return window_; }
  /// Ends the window if it is over: judges the traffic of each client. O(clients).
  void expire(Time now);
  /// Shortens the current window if the new parameters do.
  void parameters_changed(Time now);

 private:
  void judge(std::uint32_t i, Client& client);
  void raise(std::uint32_t i, const Client& client);

  const ShareAdjustment& parameters_;
  ClientTable& clients_;
  Shares& shares_;
  std::uint32_t window_ = 0;
  Time next_;
};

}  // namespace softhca::management::gsa
