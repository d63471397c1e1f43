#include "daemon/management/cm/mad_sender.hpp"

#include <chrono>

namespace softhca::management::cm {

void MadSender::reply_stateless(const Path& path, const wire::Mad& mad, Time now) {
  if (now - since_ >= std::chrono::seconds(1)) {
    since_ = now;
    replies_ = 0;
  }
  if (replies_ >= local_.limits.stateless_replies) {
    ++counters_.replies_over_limit;
    return;
  }
  ++replies_;
  send(path, mad);
}

}  // namespace softhca::management::cm
