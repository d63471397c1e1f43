// SPDX-License-Identifier: Apache-2.0

// What has come of it: completions against the order of posting, memory against their contents.
#include <arpa/inet.h>

#include <cstring>
#include <thread>

#include "tests/system/verbs/stress/link.hpp"

namespace softhca::stress {
namespace {

ibv_wc_opcode completion_of(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
      return IBV_WC_SEND;
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return IBV_WC_FETCH_ADD;
    default:
      return IBV_WC_RDMA_WRITE;
  }
}

std::string described(const ibv_wc& wc) {
  char text[200];
  std::snprintf(text, sizeof text, "number %#lx, %s, opcode %d, %u bytes", wc.wr_id,
                ibv_wc_status_str(wc.status), static_cast<int>(wc.opcode), wc.byte_len);
  return text;
}

constexpr std::uint64_t kGenerations = 0xffffff;

}  // namespace

void Link::await(const std::function<bool()>& over, const char* what) {
  const auto end = Clock::now() + kPatience;
  for (;;) {
    bool any = sends_->poll();
    any |= receives_ != sends_ && receives_->poll();
    while (const auto wc = sends_->take(sent_)) take_sent(*wc), any = true;
    while (const auto wc = receives_->take(received_)) take_received(*wc), any = true;
    if (over()) return;
    if (any) continue;
    if (Clock::now() > end) throw Fault(what, state());
    if (shape_.by_events)
      (completed_ < commands_.size() ? sends_ : receives_)->await_event(end);
    else
      pause();
  }
}

std::string Link::state() const {
  return std::to_string(completed_) + " of " + std::to_string(commands_.size()) +
         " commands complete, " + std::to_string(messages_.size()) + " messages to come, " +
         std::to_string(posted_.size()) + " receives posted, type " +
         std::to_string(static_cast<int>(shape_.type));
}

void Link::check_identity(const ibv_wc& wc, std::uint64_t id, const char* what) const {
  if (wc.wr_id == id) return;
  const bool old = (wc.wr_id >> 24 & kGenerations) != (generation_ & kGenerations);
  if (old && !srq_) throw Fault("a completion of a command posted before RESET", described(wc));
  throw Fault(std::string(what) + " out of order, twice or lost", described(wc));
}

/// Those before it that said nothing are complete, too.
void Link::take_sent(const ibv_wc& wc) {
  const bool flushed = wc.status != IBV_WC_SUCCESS;
  while (completed_ < commands_.size() && commands_[completed_].id != wc.wr_id &&
         !commands_[completed_].signaled && !failed_)
    ++completed_;
  if (completed_ == commands_.size()) check_identity(wc, 0, "a completion");
  const Command& command = commands_[completed_];
  check_identity(wc, command.id, "a completion");
  if (flushed || failed_) return take_failed(wc);
  if (wc.opcode != completion_of(command.opcode)) throw Fault("wrong opcode", described(wc));
  if (wc.qp_num != sender_->qp_num) throw Fault("wrong queue pair", described(wc));
  const bool brings = wc.opcode != IBV_WC_SEND && wc.opcode != IBV_WC_RDMA_WRITE;
  if (brings && wc.byte_len != command.bytes) throw Fault("wrong length", described(wc));
  ++completed_;
}

/// Once a command has failed, each one after it does, whether or not it was to say anything.
void Link::take_failed(const ibv_wc& wc) {
  if (breaking_ == Breaking::kNone) throw Fault("a command failed", described(wc));
  const bool first = !failed_ && breaking_ == Breaking::kPeerFirst;
  if (wc.status == IBV_WC_SUCCESS || (wc.status != IBV_WC_WR_FLUSH_ERR && !first))
    throw Fault("a command that was to be flushed", described(wc));
  failed_ = true;
  ++completed_;
}

void Link::take_received(const ibv_wc& wc) {
  if (posted_.empty()) check_identity(wc, 0, "a receive");
  const Posted receive = posted_.front();
  check_identity(wc, receive.id, "a receive");
  posted_.pop_front();
  if (wc.status == IBV_WC_WR_FLUSH_ERR && breaking_ != Breaking::kNone) {
    free_.push_back(receive.slot);
    return;
  }
  if (wc.status != IBV_WC_SUCCESS) throw Fault("a receive failed", described(wc));
  if (messages_.empty()) throw Fault("a message that was not sent", described(wc));
  const std::size_t index = messages_.front();
  messages_.pop_front();
  const Command& command = commands_[index];
  const bool write = command.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  const bool immediate = command.opcode != IBV_WR_SEND;
  if (wc.opcode != (write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV) ||
      wc.byte_len != command.bytes || wc.qp_num != receiver_->qp_num ||
      ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) != immediate)
    throw Fault("a receive that is not like its message", described(wc));
  if (immediate && ntohl(wc.imm_data) != static_cast<std::uint32_t>(command.id))
    throw Fault("wrong immediate data", described(wc));
  arrived_.emplace_back(receive.slot, index);
}

void Link::settle() {
  if (late_ != 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(random_.below(2000)));
    post_receives(late_);
  }
  await([&] { return completed_ == commands_.size() && messages_.empty(); }, "no completion");
  if (sends_->take(stray_from_) || receives_->take(stray_to_))
    throw Fault("a completion of the other direction");
  if (posted_.size() < limit_) {
    to_.watch.await(srq_.get(), IBV_EVENT_SRQ_LIMIT_REACHED);
    limit_ = 0;
  }
  check_memory();
}

/// All of it; then it is blank again.
void Link::check_memory() {
  count("commands checked", commands_.size());
  count("messages checked", arrived_.size());
  for (unsigned slot = 0; slot < depth_; ++slot) {
    if (slot < commands_.size()) {
      check_command(slot);
      source_->blank(slot);
      target_->blank(slot);
    } else {
      source_->check(slot, "memory of no command");
      target_->check(slot, "remote memory of no command");
    }
  }
  check_arrivals();
  commands_.clear();
  completed_ = 0;
}

void Link::check_arrivals() {
  for (const auto& [slot, index] : arrived_) {
    const Command& command = commands_[index];
    const bool send = command.opcode != IBV_WR_RDMA_WRITE_WITH_IMM;
    arrivals_->check(slot, "a message", 0, send ? command.bytes : 0, command.id);
    arrivals_->blank(slot);
    free_.push_back(slot);
  }
  arrived_.clear();
  arrivals_->check_all_blank("receives of no message");
}

void Link::check_command(unsigned slot) {
  const Command& command = commands_[slot];
  const bool send = command.opcode == IBV_WR_SEND || command.opcode == IBV_WR_SEND_WITH_IMM;
  if (command.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || command.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
    check_atomic(command, slot);
  source_->check(slot, "local memory", command.offset, command.bytes, command.id);
  target_->check(slot, "remote memory", command.offset, send ? 0 : command.bytes, command.id);
}

/// The value that was there has come, and the new one is there; that is put back.
void Link::check_atomic(const Command& command, unsigned slot) {
  std::uint64_t before = 0, after = 0;
  std::memcpy(&before, source_->at(slot) + command.offset, sizeof before);
  std::memcpy(&after, target_->at(slot) + command.offset, sizeof after);
  const bool swap = command.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
  const std::uint64_t wanted = !swap ? before + command.id : command.hit ? command.id : before;
  if (after != wanted) throw Fault("wrong result of an atomic operation");
  write_pattern(target_->at(slot) + command.offset, command.bytes, command.id);
}

}  // namespace softhca::stress
