// SPDX-License-Identifier: Apache-2.0

// Changes to a connection while commands are under way.
#include <algorithm>
#include <thread>

#include "tests/system/verbs/stress/link.hpp"

namespace softhca::stress {

void Link::reset() {
  count("commands under way at a reset", commands_.size() - completed_);
  // Packets in a network still arrive until the receiver is reset. So the sender may be reset first
  // only if both ends are at one station.
  if (&from_ == &to_ && random_.below(4) != 0) return reset_sender_first();
  ibv_qp* ends[] = {sender_.get(), receiver_.get()};
  if (random_.below(2) == 0) std::swap(ends[0], ends[1]);
  for (ibv_qp* end : ends) to_state(end, IBV_QPS_RESET);
  start_anew();
}

/// Resets the sender and makes it ready again, while its receiver keeps its state.
void Link::reset_sender_first() {
  const Terms terms = choose_terms();
  to_state(sender_.get(), IBV_QPS_RESET);
  while (sends_->poll()) {
  }
  sends_->clear(sent_, stray_from_);
  const std::vector<std::byte> before = target_->copy(), received_before = arrivals_->copy();
  connect_sender(terms);
  if (random_.below(4) == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(random_.below(5)));
  to_state(receiver_.get(), IBV_QPS_RESET);
  if (target_->copy() != before || arrivals_->copy() != received_before)
    throw Fault("memory is written after RESET");
  while (sends_->poll()) {
  }
  if (sends_->take(sent_)) throw Fault("a completion of a command posted before RESET");
  forget_all();
  connect_receiver(terms);
}

/// After a reset of both ends, or with new ones.
void Link::start_anew() {
  forget_all();
  if (random_.below(8) == 0) expect_quiet();
  connect();
}

/// Resets repeatedly without a pause, so that posted commands may still be on their way to the
/// adapter when the queue pair has been reset.
void Link::reset_often() {
  for (unsigned times = random_.between(1, 8); times > 0; --times) {
    if (room() != 0) post(room());
    reset();
  }
  if (random_.below(2) == 0) expect_quiet();
}

void Link::recreate() {
  count("commands under way where queue pairs were made anew", commands_.size() - completed_);
  const bool both = random_.below(2) == 0;
  const bool sender_too = both || random_.below(2) == 0;
  const bool receiver_too = both || !sender_too;
  if (sender_too)
    unmake_sender();
  else
    to_state(sender_.get(), IBV_QPS_RESET);
  if (receiver_too)
    unmake_receiver();
  else
    to_state(receiver_.get(), IBV_QPS_RESET);
  if (srq_ && receiver_too && random_.below(2) == 0) unmake_shared_receive_queue();
  enroll_again();
  if (receiver_too) make_receiver();
  if (sender_too) make_sender();
  start_anew();
}

/// REQUIRES: no command under way has the keys.
void Link::enroll_again() {
  std::pair<Slots*, ibv_pd*> all[] = {
      {source_.get(), pd_from_}, {target_.get(), pd_to_}, {arrivals_.get(), pd_to_}};
  for (const auto& [slots, pd] : all)
    if (random_.below(2) == 0 && (slots != arrivals_.get() || !srq_ || posted_.empty()))
      slots->disenroll();
  for (const auto& [slots, pd] : all)
    if (slots->region() == nullptr) slots->enroll(pd);
}

void Link::break_down() {
  const bool told = srq_ != nullptr;  // of the last receive that the queue pair has taken
  const auto fail_receiver = [&] {
    if (told) to_.watch.expect(receiver_.get(), IBV_EVENT_QP_LAST_WQE_REACHED);
    to_state(receiver_.get(), IBV_QPS_ERR);
  };
  breaking_ = random_.below(2) == 0 ? Breaking::kPeerFirst : Breaking::kSenderFirst;
  if (breaking_ == Breaking::kPeerFirst) fail_receiver();
  // It takes a reliable sender two seconds to notice that its peer is gone.
  std::this_thread::sleep_for(std::chrono::microseconds(random_.below(2000)));
  if (breaking_ == Breaking::kSenderFirst || random_.below(16) != 0)
    to_state(sender_.get(), IBV_QPS_ERR);
  await([&] { return completed_ == commands_.size(); }, "no completion of what is to be flushed");
  if (breaking_ == Breaking::kSenderFirst) fail_receiver();
  if (told)
    to_.watch.await(receiver_.get(), IBV_EVENT_QP_LAST_WQE_REACHED);
  else
    await([&] { return posted_.empty(); }, "no completion of a receive that is to be flushed");
  failed_ = false;
  breaking_ = Breaking::kNone;
  reset();
}

void Link::drain() {
  if (late_ != 0) post_receives(late_);
  from_.watch.expect(sender_.get(), IBV_EVENT_SQ_DRAINED);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_SQD;
  attr.en_sqd_async_notify = 1;
  must(ibv_modify_qp(sender_.get(), &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
       "ibv_modify_qp to SQD");
  try {
    from_.watch.await(sender_.get(), IBV_EVENT_SQ_DRAINED);
  } catch (const Fault&) {  // a command that has failed says more
    while (sends_->poll()) {
    }
    while (const auto wc = sends_->take(sent_)) take_sent(*wc);
    throw;
  }
  to_state(sender_.get(), IBV_QPS_RTS);
}

/// Resizes, but never below the number of posted receives or the armed limit.
void Link::resize_shared_receive_queue() {
  const auto least =
      static_cast<std::uint32_t>(std::max({posted_.size() + late_, limit_, std::size_t{depth_}}));
  ibv_srq_attr attr{};
  attr.max_wr = random_.between(least, std::max(least, 2 * shape_.depth));
  must(ibv_modify_srq(srq_.get(), &attr, IBV_SRQ_MAX_WR), "ibv_modify_srq");
  receive_depth_ = attr.max_wr;
  count("receives under way at a resize", posted_.size());
}

/// Resizes a queue, but never below the number of entries that may wait in it.
void Link::resize() {
  if (srq_ && random_.below(2) == 0) return resize_shared_receive_queue();
  Completions* const queue = random_.below(2) == 0 ? sends_ : receives_;
  const bool own = queue == own_sends_.get() || queue == own_receives_.get();
  const std::uint32_t least =
      own ? 4 * shape_.depth : static_cast<std::uint32_t>(Station::kLeastEntries);
  queue->resize(static_cast<int>(least * random_.between(1, 4)));
}

}  // namespace softhca::stress
