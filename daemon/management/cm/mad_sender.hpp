// The MADs that go out, counted; what answers no connection of this manager goes so many times a
// second at most, whatever peers send.
#pragma once

#include <cstdint>

#include "daemon/base/time.hpp"
#include "daemon/management/cm/environment.hpp"
#include "daemon/management/cm/parameters.hpp"
#include "daemon/wire/mad.hpp"

namespace softhca::management::cm {

class MadSender {
 public:
  /// All outlive it.
  MadSender(Environment& environment, const LocalEnd& local, Counters& counters)
      : environment_(environment), local_(local), counters_(counters) {}
  MadSender(const MadSender&) = delete;
  MadSender& operator=(const MadSender&) = delete;

  void send(const Path& path, const wire::Mad& mad) {
    ++counters_.sent;
    environment_.send(path, mad);
  }
  /// Of no connection: sent unless so many went this second (Limits::stateless_replies).
  void reply_stateless(const Path& path, const wire::Mad& mad, Time now);

  /// Of what a connection begins: the number in the upper half, the connection's in the lower.
  std::uint64_t draw_transaction_id(CommId id) {
    return std::uint64_t{environment_.random()} << 32 | id.value;
  }

 private:
  Environment& environment_;
  const LocalEnd& local_;
  Counters& counters_;
  Time since_{};
  std::uint32_t replies_ = 0;  ///< in the second that began then
};

}  // namespace softhca::management::cm
