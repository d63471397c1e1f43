// SPDX-License-Identifier: Apache-2.0

#include "tests/system/verbs/stress/completions.hpp"

#include <poll.h>

#include <algorithm>

namespace softhca::stress {

void Completions::admit(std::uint32_t qpn, Inbox* sends, Inbox* receives) {
  const std::lock_guard guard(mutex_);
  boxes_[qpn] = {sends, receives};
}

void Completions::forget(std::uint32_t qpn, const Inbox* sends) {
  const std::lock_guard guard(mutex_);
  const auto found = boxes_.find(qpn);
  if (found != boxes_.end() && found->second.sends == sends) boxes_.erase(found);
}

void Completions::clear(Inbox& sends, Inbox& receives) {
  const std::lock_guard guard(mutex_);
  sends.clear();
  receives.clear();
}

std::optional<ibv_wc> Completions::take(Inbox& inbox) {
  const std::lock_guard guard(mutex_);
  if (inbox.empty()) return std::nullopt;
  const ibv_wc wc = inbox.front();
  inbox.pop_front();
  return wc;
}

bool Completions::poll() {
  constexpr int kAtOnce = 16;
  ibv_wc found[kAtOnce];
  const std::lock_guard guard(mutex_);
  const int count = ibv_poll_cq(cq_.get(), kAtOnce, found);
  if (count < 0) throw Fault("ibv_poll_cq");
  for (int i = 0; i < count; ++i) {
    const auto boxes = boxes_.find(found[i].qp_num);
    if (boxes == boxes_.end()) {
      complain("a completion of a queue pair that is destroyed",
               "number " + std::to_string(found[i].qp_num));
      continue;
    }
    // The opcode of a completion with an error is not valid. The top bit of wr_id tells a receive
    // from a send.
    const bool receive = (found[i].wr_id >> 63) != 0;
    (receive ? boxes->second.receives : boxes->second.sends)->push_back(found[i]);
  }
  return count > 0;
}

void Completions::await_event(Clock::time_point end) {
  must(ibv_req_notify_cq(cq_.get(), 0), "ibv_req_notify_cq");
  if (poll()) return;
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
  pollfd state{channel_->fd, POLLIN, 0};
  if (::poll(&state, 1, std::max(0, static_cast<int>(left.count()))) != 1) {
    if (poll()) throw Fault("no event for a completion");
    return;
  }
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  must(ibv_get_cq_event(channel_, &cq, &context), "ibv_get_cq_event");
  if (cq != cq_.get() || context != this) throw Fault("an event of another completion queue");
  ibv_ack_cq_events(cq, 1);
}

void Completions::resize(int entries) { must(ibv_resize_cq(cq_.get(), entries), "ibv_resize_cq"); }

}  // namespace softhca::stress
