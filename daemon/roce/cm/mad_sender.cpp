// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/cm/mad_sender.hpp"

#include <chrono>

namespace softhca::management::cm {

void MadSender::reply_stateless(const Path& path, const wire::Mad& mad, Time now) {
  send_bounded(path, mad, local_.limits.stateless_replies, now);
}

void MadSender::send_question(const Path& path, const wire::Mad& mad, Time now) {
  send_bounded(path, mad, local_.limits.stateless_replies / 2, now);
}

void MadSender::send_bounded(const Path& path, const wire::Mad& mad, std::uint32_t most, Time now) {
  if (now - since_ >= std::chrono::seconds(1)) {
    since_ = now;
    replies_ = 0;
  }
  if (replies_ >= most) {
    ++counters_.replies_over_limit;
    return;
  }
  ++replies_;
  send(path, mad);
}

}  // namespace softhca::management::cm
