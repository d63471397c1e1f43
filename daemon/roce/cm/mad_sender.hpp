// SPDX-License-Identifier: Apache-2.0

// Sends MADs and counts them. Limits the replies per second that belong to no connection of this
// manager, whatever peers send.
#pragma once

#include <cstdint>

#include "daemon/base/time.hpp"
#include "daemon/roce/cm/cm_environment.hpp"
#include "daemon/roce/cm/cm_parameters.hpp"
#include "daemon/roce/wire/mad.hpp"

namespace softhca::management::cm {

class MadSender {
 public:
  /// All outlive it.
  MadSender(CmEnvironment& environment, const LocalEnd& local, Counters& counters)
      : environment_(environment), local_(local), counters_(counters) {}
  MadSender(const MadSender&) = delete;
  MadSender& operator=(const MadSender&) = delete;

  void send(const Path& path, const wire::Mad& mad) {
    ++counters_.sent;
    environment_.send(path, mad);
  }
  /// Sends a reply that belongs to no connection, unless the replies of this second have reached
  /// CmLimits::stateless_replies.
  void reply_stateless(const Path& path, const wire::Mad& mad, Time now);
  /// Like reply_stateless(), but up to half as many. So replies still go out while challenges are
  /// sent to made-up addresses.
  void send_question(const Path& path, const wire::Mad& mad, Time now);

  /// Returns a transaction ID for an exchange that a connection begins: a random number in the
  /// upper half, the connection's id in the lower.
  std::uint64_t draw_transaction_id(CommId id) {
    return std::uint64_t{environment_.random()} << 32 | id.value;
  }

 private:
  void send_bounded(const Path& path, const wire::Mad& mad, std::uint32_t most, Time now);

  CmEnvironment& environment_;
  const LocalEnd& local_;
  Counters& counters_;
  Time since_{};
  std::uint32_t replies_ = 0;  ///< in the second that began at since_
};

}  // namespace softhca::management::cm
