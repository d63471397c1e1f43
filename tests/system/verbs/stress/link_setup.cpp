// SPDX-License-Identifier: Apache-2.0

// Making, connecting and unmaking both ends.
#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/system/verbs/stress/link.hpp"

namespace softhca::stress {
namespace {

constexpr std::uint64_t kLinks = 1 << 15;
constexpr std::uint32_t kPsnBits = 24;

std::uint64_t next_link() {
  static std::atomic<std::uint64_t> links{0};
  return ++links % kLinks;
}

}  // namespace

Shape random_shape(Random& random, bool lossy) {
  static constexpr std::size_t kBytes[] = {64, 256, 4096, 4096, 65536};
  Shape shape;
  const std::uint32_t type = random.below(8);
  shape.type = type < 5 ? IBV_QPT_RC : type < 6 && !lossy ? IBV_QPT_UC : IBV_QPT_XRC_SEND;
  shape.slot_bytes = kBytes[random.below(std::size(kBytes))];
  shape.depth = shape.slot_bytes > 4096 ? 8 : random.between(2, 64);
  shape.sges = random.between(1, 4);
  shape.inline_bytes = random.below(3) * 64;
  shape.signal_all = random.below(4) == 0;
  shape.shared_receive_queue = shape.type == IBV_QPT_XRC_SEND || random.below(3) == 0;
  shape.own_domain = random.below(2) == 0;
  shape.own_queues = random.below(2) == 0;
  shape.by_events = shape.own_queues && random.below(2) == 0;
  return shape;
}

Link::Link(const Stage& stage, const Shape& shape, Random& random)
    : from_(stage.from), to_(stage.to), shape_(shape), random_(random), link_(next_link()) {
  try {
    make_all();
  } catch (...) {
    unmake_sender();
    unmake_receiver();
    unmake_shared_receive_queue();
    throw;
  }
}

Link::~Link() {
  unmake_sender();
  unmake_receiver();
  unmake_shared_receive_queue();
}

void Link::make_all() {
  if (shape_.own_domain) {
    own_from_.reset(made(ibv_alloc_pd(from_.device.context.get()), "ibv_alloc_pd"));
    own_to_.reset(made(ibv_alloc_pd(to_.device.context.get()), "ibv_alloc_pd"));
  }
  pd_from_ = (shape_.own_domain ? own_from_ : from_.pd).get();
  pd_to_ = (shape_.own_domain ? own_to_ : to_.pd).get();
  make_queues();
  make_receiver();
  make_sender();
  const auto offset = [&] { return std::size_t{random_.below(64)} * 64; };
  // Receives of a shared queue may be taken unseen, and until that shows others have the room; and
  // it may get twice as large.
  const unsigned arrivals = (srq_ ? 4 : 1) * receive_depth_;
  source_ = std::make_unique<Slots>(depth_, shape_.slot_bytes, offset());
  target_ = std::make_unique<Slots>(depth_, shape_.slot_bytes, offset());
  arrivals_ = std::make_unique<Slots>(arrivals, shape_.slot_bytes, offset());
  source_->enroll(pd_from_);
  target_->enroll(pd_to_);
  arrivals_->enroll(pd_to_);
  for (unsigned slot = 0; slot < arrivals; ++slot) free_.push_back(slot);
  connect();
}

void Link::make_queues() {
  if (!shape_.own_queues) {
    sends_ = from_.queues[random_.below(Station::kSharedQueues)].get();
    receives_ = to_.queues[random_.below(Station::kSharedQueues)].get();
    return;
  }
  const int entries = static_cast<int>(shape_.depth * 4);
  const auto make = [&](const Device& device, Channel& channel) {
    if (shape_.by_events)
      channel.reset(made(ibv_create_comp_channel(device.context.get()), "ibv_create_comp_channel"));
    return std::make_unique<Completions>(device, entries, channel.get());
  };
  own_sends_ = make(from_.device, channel_from_);
  sends_ = receives_ = own_sends_.get();
  if (&from_ == &to_ && random_.below(2) == 0) return;
  own_receives_ = make(to_.device, channel_to_);
  receives_ = own_receives_.get();
}

void Link::make_receiver() {
  ibv_context* const context = to_.device.context.get();
  const bool xrc = shape_.type == IBV_QPT_XRC_SEND;
  if (xrc && !xrc_domain_) {
    ibv_xrcd_init_attr init{};
    init.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    init.fd = -1;
    init.oflags = O_CREAT;
    xrc_domain_.reset(made(ibv_open_xrcd(context, &init), "ibv_open_xrcd"));
  }
  if (shape_.shared_receive_queue && !srq_) make_shared_receive_queue();
  ibv_qp_init_attr_ex init{};
  init.qp_type = xrc ? IBV_QPT_XRC_RECV : shape_.type;
  if (xrc) {
    init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    init.xrcd = xrc_domain_.get();
  } else {
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    init.pd = pd_to_;
    init.send_cq = init.recv_cq = receives_->cq();
    init.srq = srq_.get();
    init.cap = {1, srq_ ? 0 : shape_.depth, 1, srq_ ? 0 : shape_.sges, 0};
  }
  receiver_.reset(made(ibv_create_qp_ex(context, &init), "ibv_create_qp"));
  if (!srq_) receive_depth_ = init.cap.max_recv_wr;
  receives_->admit(receiver_->qp_num, &stray_to_, &received_);
  to_.watch.admit(receiver_.get(), this);
}

void Link::make_shared_receive_queue() {
  ibv_srq_init_attr_ex init{};
  init.attr = {shape_.depth, shape_.sges, 0};
  init.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
  init.srq_type = IBV_SRQT_BASIC;
  init.pd = pd_to_;
  if (xrc_domain_) {
    init.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    init.srq_type = IBV_SRQT_XRC;
    init.xrcd = xrc_domain_.get();
    init.cq = receives_->cq();
  }
  srq_.reset(made(ibv_create_srq_ex(to_.device.context.get(), &init), "ibv_create_srq"));
  receive_depth_ = init.attr.max_wr;
  to_.watch.admit(srq_.get(), this);
}

void Link::make_sender() {
  ibv_qp_init_attr init{};
  init.qp_type = shape_.type;
  init.send_cq = init.recv_cq = sends_->cq();
  init.cap = {shape_.depth, 1, shape_.sges, 1, shape_.inline_bytes};
  init.sq_sig_all = shape_.signal_all ? 1 : 0;
  sender_.reset(made(ibv_create_qp(pd_from_, &init), "ibv_create_qp"));
  depth_ = std::min({init.cap.max_send_wr, receive_depth_, shape_.depth});
  inline_bytes_ = init.cap.max_inline_data;
  sends_->admit(sender_->qp_num, &sent_, &stray_from_);
  from_.watch.admit(sender_.get(), this);
}

void Link::unmake_sender() {
  if (!sender_) return;
  const std::uint32_t number = sender_->qp_num;
  const ibv_qp* const was = sender_.get();
  sender_.reset();
  sends_->forget(number, &sent_);
  from_.watch.forget(was, this);
}

void Link::unmake_receiver() {
  if (!receiver_) return;
  const std::uint32_t number = receiver_->qp_num;
  const ibv_qp* const was = receiver_.get();
  receiver_.reset();
  take_left_behind();
  receives_->forget(number, &stray_to_);
  to_.watch.forget(was, this);
}

void Link::unmake_shared_receive_queue() {
  if (!srq_) return;
  const ibv_srq* const was = srq_.get();
  srq_.reset();
  to_.watch.forget(was, this);
  for (const Posted& receive : posted_) free_.push_back(receive.slot);
  posted_.clear();
  limit_ = 0;
  limits_ = true;
}

/// Completions of a shared receive queue of XRC are its own and stay when a target goes.
void Link::take_left_behind() {
  if (!xrc_domain_) return;
  while (receives_->poll()) {
  }
}

Link::Terms Link::choose_terms() {
  static constexpr ibv_mtu kMtus[] = {IBV_MTU_256, IBV_MTU_1024, IBV_MTU_4096};
  return {kMtus[random_.below(std::size(kMtus))], random_.below(1 << kPsnBits),
          random_.below(1 << kPsnBits), static_cast<std::uint8_t>(random_.between(1, 16))};
}

void Link::connect_sender(const Terms& terms) {
  bring_up(sender_.get(), {to_.device.gid, receiver_->qp_num, terms.back}, terms.psn, terms.mtu,
           terms.reads);
}

void Link::connect_receiver(const Terms& terms) {
  bring_up(receiver_.get(), {from_.device.gid, sender_->qp_num, terms.psn}, terms.back, terms.mtu,
           terms.reads);
}

void Link::connect() {
  const Terms terms = choose_terms();
  connect_receiver(terms);
  connect_sender(terms);
}

/// Both ends are as new, or are new.
void Link::forget_all() {
  take_left_behind();
  sends_->clear(sent_, stray_from_);
  receives_->clear(stray_to_, received_);
  ++generation_;
  if (srq_) {
    find_lost_receives();
  } else {
    for (const Posted& receive : posted_) free_.push_back(receive.slot);
    posted_.clear();
  }
  for (const auto& [slot, command] : arrived_) free_.push_back(slot);
  arrived_.clear();
  messages_.clear();
  commands_.clear();
  completed_ = late_ = 0;
  if (limit_ != 0) limits_ = false;  // an event of it may be on its way
  limit_ = 0;
  source_->blank_all();
  target_->blank_all();
  arrivals_->blank_all();
}

/// A shared receive queue keeps what no message has taken; which that is tells the room it has.
void Link::find_lost_receives() {
  const std::size_t before = posted_.size();
  while (try_post_receive(free_.front())) free_.pop_front();
  if (posted_.size() < receive_depth_) throw Fault("a shared receive queue has lost room");
  const std::size_t lost = posted_.size() - receive_depth_;
  if (lost > std::min(before, messages_.size()))
    throw Fault("a shared receive queue has lost receives");
  for (std::size_t i = 0; i < lost; ++i) {
    free_.push_back(posted_.front().slot);
    posted_.pop_front();
  }
}

/// For a while nothing may come, and nothing be written.
void Link::expect_quiet() {
  const auto end = Clock::now() + std::chrono::milliseconds(random_.between(1, 20));
  while (Clock::now() < end) {
    if (!sends_->poll() && !receives_->poll()) pause();
    if (sends_->take(sent_) || receives_->take(received_))
      throw Fault("a completion of a command posted before RESET");
  }
  const char* const what = "memory after RESET, before anything is posted";
  source_->check_all_blank(what);
  target_->check_all_blank(what);
  arrivals_->check_all_blank(what);
}

}  // namespace softhca::stress
