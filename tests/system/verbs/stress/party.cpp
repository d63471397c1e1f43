// SPDX-License-Identifier: Apache-2.0

#include "tests/system/verbs/stress/party.hpp"

#include <algorithm>
#include <cstring>

namespace softhca::stress {
namespace {

constexpr std::uint32_t kGrh = 40;
constexpr std::uint64_t kDatagramReceive = std::uint64_t{1} << 63;
/// How long a message that may be lost is waited for, and how many are remembered to come late, or
/// twice.
constexpr std::chrono::milliseconds kShortPatience{5};
constexpr std::size_t kRemembered = 1000;

}  // namespace

Party::Party(Station& station, std::uint32_t qkey, bool lossy)
    : qkey_(qkey),
      lossy_(lossy),
      completions_(station.device, 4 * kDepth),
      slots_(kDepth, kBytes, 0) {
  slots_.enroll(station.pd.get());
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_UD;
  init.send_cq = init.recv_cq = completions_.cq();
  init.cap = {kDepth, kDepth, 1, 1, 0};
  qp_.reset(made(ibv_create_qp(station.pd.get(), &init), "ibv_create_qp"));
  completions_.admit(qp_->qp_num, &sent_, &received_);
  bring_up(qp_.get(), qkey_);
}

Party::~Party() {
  detach();
  const std::uint32_t number = qp_->qp_num;
  qp_.reset();
  completions_.forget(number, &sent_);
}

void Party::attach(const ibv_gid& group) {
  must(ibv_attach_mcast(qp_.get(), &group, 0), "ibv_attach_mcast");
  group_ = group;
}

void Party::detach() {
  if (!group_) return;
  if (const int error = ibv_detach_mcast(qp_.get(), &*group_, 0))
    complain(std::string("ibv_detach_mcast: ") + std::strerror(error));
  group_.reset();
}

void Party::send(ibv_sge from, ibv_ah* to, std::uint32_t qpn, std::uint32_t qkey) {
  ibv_send_wr wr{}, *bad = nullptr;
  wr.wr_id = ++serial_;
  wr.sg_list = &from;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.ud = {to, qpn, qkey};
  must(ibv_post_send(qp_.get(), &wr, &bad), "ibv_post_send");
  ++under_way_;
}

void Party::finish_sends() {
  for (const auto end = Clock::now() + kPatience; under_way_ > 0;) {
    completions_.poll();
    if (const auto wc = completions_.take(sent_)) {
      if (wc->status != IBV_WC_SUCCESS)
        throw Fault(std::string("a datagram: ") + ibv_wc_status_str(wc->status));
      if (wc->wr_id != serial_ - under_way_ + 1)
        throw Fault("a completion of a datagram out of order, twice or lost");
      --under_way_;
    } else if (Clock::now() > end) {
      throw Fault("no completion of a datagram");
    } else {
      pause();
    }
  }
}

void Party::provide() {
  for (; posted_ < kDepth; ++posted_) {
    const unsigned slot = (next_ + posted_) % kDepth;
    slots_.blank(slot);
    ibv_sge to{slots_.address(slot), kBytes, slots_.region()->lkey};
    ibv_recv_wr wr{kDatagramReceive | slot, nullptr, &to, 1}, *bad = nullptr;
    must(ibv_post_recv(qp_.get(), &wr, &bad), "ibv_post_recv");
  }
}

void Party::expect(std::uint64_t number, std::uint32_t bytes) {
  expected_.push_back({number, bytes});
}

void Party::permit(std::uint64_t number, std::uint32_t bytes) {
  if (!lossy_) return;
  passed_.push_back({number, bytes});
  if (passed_.size() > kRemembered) passed_.pop_front();
}

void Party::finish_receives() {
  const auto end = Clock::now() + (lossy_ ? std::chrono::milliseconds(kShortPatience) : kPatience);
  while (!expected_.empty()) {
    if (take()) continue;
    if (Clock::now() > end) {
      if (lossy_) break;
      throw Fault("a datagram has not come");
    }
    pause();
  }
  while (take()) {
  }
  for (unsigned i = 0; i < posted_; ++i)
    if (!lossy_) slots_.check((next_ + i) % kDepth, "receives of no datagram");
}

/// On a lossy path: what was sent before it need not come any more, but may.
template <class Is>
bool Party::recognize(const Is& is) {
  const auto found = std::find_if(expected_.begin(), expected_.end(), is);
  if (found == expected_.end()) return std::any_of(passed_.begin(), passed_.end(), is);
  passed_.insert(passed_.end(), expected_.begin(), found + 1);
  expected_.erase(expected_.begin(), found + 1);
  while (passed_.size() > kRemembered) passed_.pop_front();
  return true;
}

bool Party::take() {
  completions_.poll();
  const auto wc = completions_.take(received_);
  if (!wc) return false;
  if (wc->status != IBV_WC_SUCCESS || wc->wr_id != (kDatagramReceive | next_))
    throw Fault("a receive of datagrams out of order, or failed");
  const std::byte* const at = slots_.at(next_) + kGrh;
  const auto is = [&](const Datagram& datagram) {
    return wc->byte_len == kGrh + datagram.bytes &&
           match_pattern(at, datagram.bytes, datagram.number) == datagram.bytes;
  };
  if (lossy_) {
    if (!recognize(is)) throw Fault("a datagram that was not to come here");
  } else {
    if (expected_.empty()) throw Fault("a datagram that was not to come here");
    if (!is(expected_.front())) throw Fault("another datagram, or another length");
    expected_.pop_front();
  }
  next_ = (next_ + 1) % kDepth;
  --posted_;
  return true;
}

void Party::reset() {
  detach();
  to_state(qp_.get(), IBV_QPS_RESET);
  while (completions_.poll()) {
  }
  completions_.clear(sent_, received_);
  if (!lossy_) expected_.clear();
  under_way_ = posted_ = next_ = 0;
  bring_up(qp_.get(), qkey_);
}

}  // namespace softhca::stress
