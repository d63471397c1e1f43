// SPDX-License-Identifier: Apache-2.0

// What is posted: commands of all kinds in chains, and receives for them.
#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "tests/system/verbs/stress/link.hpp"

namespace softhca::stress {
namespace {

constexpr std::uint64_t kReceive = std::uint64_t{1} << 63;
constexpr unsigned kLongestChain = 16;
constexpr std::uint32_t kWord = 8;

bool is_atomic(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/// `bytes` at `address` in so many pieces.
std::vector<ibv_sge> divide(std::uint64_t address, std::uint32_t bytes, std::uint32_t key,
                            unsigned pieces, Random& random) {
  std::vector<ibv_sge> list;
  for (; pieces > 1; --pieces) {
    const std::uint32_t part = random.between(0, bytes);
    list.push_back({address, part, key});
    address += part;
    bytes -= part;
  }
  list.push_back({address, bytes, key});
  return list;
}

}  // namespace

/// A message takes a receive.
bool Link::takes_receive(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
         opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

ibv_wr_opcode Link::choose_opcode() {
  static constexpr ibv_wr_opcode kAll[] = {IBV_WR_SEND,
                                           IBV_WR_SEND_WITH_IMM,
                                           IBV_WR_RDMA_WRITE,
                                           IBV_WR_RDMA_WRITE,
                                           IBV_WR_RDMA_WRITE_WITH_IMM,
                                           IBV_WR_RDMA_READ,
                                           IBV_WR_ATOMIC_CMP_AND_SWP,
                                           IBV_WR_ATOMIC_FETCH_AND_ADD};
  constexpr std::uint32_t kUnreliable = 5;  // the first of them
  return kAll[random_.below(shape_.type == IBV_QPT_UC ? kUnreliable : std::size(kAll))];
}

Link::Command Link::compose() {
  Command command{};
  command.id = next_id();
  command.opcode = choose_opcode();
  const auto most = static_cast<std::uint32_t>(shape_.slot_bytes);
  command.offset = random_.below(most / kWord) * kWord;
  command.bytes = is_atomic(command.opcode) ? kWord : random_.between(0, most - command.offset);
  command.hit = random_.below(2) == 0;
  command.signaled = shape_.signal_all || random_.below(2) == 0;
  return command;
}

/// The bytes that are to move are where they come from.
void Link::prepare(const Command& command, unsigned slot) {
  const bool from_there = command.opcode == IBV_WR_RDMA_READ || is_atomic(command.opcode);
  const Slots& slots = from_there ? *target_ : *source_;
  write_pattern(slots.at(slot) + command.offset, command.bytes, command.id);
}

/// In chains of random length; the last command of all says that it is done.
void Link::post(unsigned count) {
  if (srq_ && limits_ && limit_ == 0 && !busy() && random_.below(4) == 0) arm_limit();
  const auto first = static_cast<unsigned>(commands_.size());
  std::size_t messages = 0;
  for (unsigned i = 0; i < count; ++i) {
    Command command = compose();
    command.signaled |= i + 1 == count;
    if (takes_receive(command.opcode)) ++messages;
    prepare(command, first + i);
    commands_.push_back(command);
  }
  provide_receives(messages);
  for (unsigned done = 0; done < count;) {
    const unsigned chain = std::min(count - done, random_.between(1, kLongestChain));
    post_chain(first + done, chain);
    done += chain;
  }
}

/// For messages to come, or some of them: a reliable connection waits for the others.
void Link::provide_receives(std::size_t messages) {
  const std::size_t needed = messages_.size() + messages;
  const std::size_t there = posted_.size() + late_;
  const bool waits = late_ != 0;
  if (needed > there) late_ += needed - there;
  if (waits) return;
  const bool some = shape_.type != IBV_QPT_UC && random_.below(4) == 0;
  post_receives(some ? random_.below(static_cast<std::uint32_t>(late_) + 1) : late_);
}

/// An event is due when fewer receives are left.
void Link::arm_limit() {
  if (posted_.empty()) return;
  limit_ = random_.between(1, static_cast<std::uint32_t>(posted_.size()));
  to_.watch.expect(srq_.get(), IBV_EVENT_SRQ_LIMIT_REACHED);
  ibv_srq_attr attr{};
  attr.srq_limit = static_cast<std::uint32_t>(limit_);
  must(ibv_modify_srq(srq_.get(), &attr, IBV_SRQ_LIMIT), "ibv_modify_srq");
}

void Link::post_chain(unsigned first, unsigned count) {
  std::vector<ibv_send_wr> list(count);
  std::vector<std::vector<ibv_sge>> pieces(count);
  for (unsigned i = 0; i < count; ++i) {
    if (takes_receive(commands_[first + i].opcode)) messages_.push_back(first + i);
    list[i] = request(commands_[first + i], first + i, pieces[i]);
    if (i != 0) list[i - 1].next = &list[i];
  }
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(sender_.get(), list.data(), &bad))
    throw Fault(std::string("ibv_post_send: ") + std::strerror(error),
                std::to_string(bad - list.data()) + " of a chain of " + std::to_string(count) +
                    " at " + std::to_string(first) + " of " + std::to_string(depth_));
}

ibv_send_wr Link::request(const Command& command, unsigned slot, std::vector<ibv_sge>& pieces) {
  const bool atomic = is_atomic(command.opcode);
  pieces = divide(source_->address(slot) + command.offset, command.bytes, source_->region()->lkey,
                  atomic ? 1 : random_.between(1, shape_.sges), random_);
  ibv_send_wr wr{};
  wr.wr_id = command.id;
  wr.sg_list = pieces.data();
  wr.num_sge = static_cast<int>(pieces.size());
  wr.opcode = command.opcode;
  wr.imm_data = htonl(static_cast<std::uint32_t>(command.id));
  wr.send_flags = command.signaled ? IBV_SEND_SIGNALED : 0;
  const bool pushes = !atomic && command.opcode != IBV_WR_RDMA_READ;
  if (pushes && command.bytes <= inline_bytes_ && random_.below(2) == 0)
    wr.send_flags |= IBV_SEND_INLINE;
  const std::uint64_t there = target_->address(slot) + command.offset;
  const std::uint32_t key = target_->region()->rkey;
  if (atomic) {
    std::uint64_t value = 0;
    std::memcpy(&value, target_->at(slot) + command.offset, sizeof value);
    const bool swap = command.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
    const std::uint64_t compare = command.hit ? value : value + 1;
    wr.wr.atomic = {there, swap ? compare : command.id, command.id, key};
  } else {
    wr.wr.rdma = {there, key};
  }
  if (shape_.type == IBV_QPT_XRC_SEND)
    must(ibv_get_srq_num(srq_.get(), &wr.qp_type.xrc.remote_srqn), "ibv_get_srq_num");
  return wr;
}

void Link::post_receives(std::size_t count) {
  for (; count > 0; --count, --late_) {
    if (!try_post_receive(free_.front())) throw Fault("a receive queue has no room");
    free_.pop_front();
  }
}

/// False: the queue is full.
bool Link::try_post_receive(unsigned slot) {
  std::vector<ibv_sge> pieces =
      divide(arrivals_->address(slot), static_cast<std::uint32_t>(shape_.slot_bytes),
             arrivals_->region()->lkey, random_.between(1, shape_.sges), random_);
  ibv_recv_wr wr{kReceive | next_id(), nullptr, pieces.data(), static_cast<int>(pieces.size())};
  ibv_recv_wr* bad = nullptr;
  const int error =
      srq_ ? ibv_post_srq_recv(srq_.get(), &wr, &bad) : ibv_post_recv(receiver_.get(), &wr, &bad);
  if (error == ENOMEM) return false;
  must(error, "posting a receive");
  posted_.push_back({wr.wr_id, slot});
  return true;
}

}  // namespace softhca::stress
