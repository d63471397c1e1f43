// SPDX-License-Identifier: Apache-2.0

#include "tests/sim/restart_lane.hpp"

#include <algorithm>
#include <cstring>

#include "daemon/roce/transport/upcalls.hpp"
#include "tests/sim/failure.hpp"
#include "tests/sim/pool.hpp"

namespace softhca::sim {

using abi::Opcode;
using engine::Buffer;
using engine::Completed;
using engine::Process;
using engine::QpType;
using engine::Work;
using Status = abi::CompletionStatus;

namespace {

constexpr std::uint32_t kQkey = 0x11111111;
constexpr std::uint32_t kConstantBytes = 1 << 14;
constexpr std::uint32_t kConstantAs = 99;  ///< place in the pool
constexpr std::uint32_t kOpen = Process::kFull | memory::kBindWindow;

}  // namespace

// --- receives

ReceiveSlots::ReceiveSlots(Process& owner, std::uint32_t bytes)
    : buffer_(owner.make_buffer(std::size_t{bytes} * kSlots)), each_(bytes) {
  for (std::uint32_t i = 0; i < kSlots; ++i) free_.push_back(i);
}

void ReceiveSlots::post(engine::ReceivePoster& queue, Random& random) {
  for (std::uint32_t n = random.below(4); n > 0 && !free_.empty(); --n) {
    const std::uint32_t slot = free_.front();
    free_.pop_front();
    slot_of_.push_back(slot);
    queue.post(next_++, {buffer_.part(std::size_t{slot} * each_, each_)});
  }
}

std::vector<std::byte> ReceiveSlots::take(std::uint32_t index, std::uint32_t bytes) {
  require(index < next_ && slot_of_[index] < kSlots, "receive twice, or never posted", index);
  require(bytes <= each_, "receive too long", bytes);
  const std::uint32_t slot = std::exchange(slot_of_[index], kSlots);
  free_.push_back(slot);
  const std::byte* const at = buffer_.data() + std::size_t{slot} * each_;
  std::vector<std::byte> out(at, at + bytes);
  std::memset(buffer_.data() + std::size_t{slot} * each_, 0, each_);
  return out;
}

// --- work

Lane::Lane(RestartWorld& world, engine::TestCq& send, engine::TestCq& receive,
           const LaneOptions& options, std::uint32_t number, Random& random)
    : world_(world), random_(random), options_(options), number_(number) {
  const bool xrc = options.type == QpType::kXrcSend;
  engine::QpOptions near{.type = options.type, .send_entries = kDepth};
  engine::QpOptions far = near;
  far.srq = options.srq;
  if (xrc) {
    far = {.type = QpType::kXrcReceive, .xrc_domain = options.srq->srq.xrc_domain};
  }
  near_ = &world.a->make_qp(send, send, near);
  far_ = &world.b->make_qp(receive, receive, far);
  if (is_datagram()) {
    bring_up_datagram(*world.a, *near_, kQkey);
    bring_up_datagram(*world.b, *far_, kQkey);
    ah_ = world.a->make_ah(world.b->tenant.addresses[0].gid);
  } else {
    const engine::Connection connection{
        .timeout = 14,
        .retry_count = 7,
        .max_rd_atomic = static_cast<std::uint8_t>(random.between(1, 8)),
        .access = kOpen,
        .sq_psn = Psn(0xffffe0),
        .rq_psn = Psn(0xffffe0)};
    connect(*world.a, *near_, *world.b, *far_, connection);
  }
  const std::size_t bytes = std::size_t{options.longest} * kSlots;
  source_ = &world.a->make_buffer(bytes);
  sink_ = &world.a->make_buffer(bytes);
  remote_ = &world.b->make_buffer(bytes, kOpen);
  constant_ = &world.b->make_buffer(kConstantBytes);
  counter_ = &world.b->make_buffer(8);
  const auto constant = pool_bytes(kConstantAs, kConstantBytes);
  std::copy(constant.begin(), constant.end(), constant_->data());
}

/// Returns a message of 8 bytes at least, which name it.
std::vector<std::byte> Lane::message(std::uint32_t number, std::uint32_t length) const {
  const auto from = pool_bytes((number_ * 7919 + number * 131) % (1 << 20), length);
  std::vector<std::byte> out(from.begin(), from.end());
  const std::uint32_t name[2] = {number_, number};
  std::memcpy(out.data(), name, sizeof name);
  return out;
}

Lane::Kind Lane::choose_kind() {
  // What an atomic has done before the queue pair failed is not known.
  if (options_.ending == Ending::kByProgram && is_reliable())
    return static_cast<Kind>(random_.below(5));
  if (is_datagram()) return static_cast<Kind>(random_.below(2));
  if (!is_reliable()) return static_cast<Kind>(random_.below(4));
  if (window_ != 0 && options_.type == QpType::kRc && random_.chance(0.2))
    return Kind::kSendInvalidate;
  return static_cast<Kind>(random_.below(7));
}

void Lane::post() {
  constexpr Opcode kOpcodes[] = {
      Opcode::kSend,     Opcode::kSendWithImm, Opcode::kRdmaWrite,   Opcode::kRdmaWriteWithImm,
      Opcode::kRdmaRead, Opcode::kFetchAdd,    Opcode::kCompareSwap, Opcode::kSendWithInvalidate};
  const auto number = static_cast<std::uint32_t>(operations_.size());
  Operation op{.kind = choose_kind(), .signaled = number % 4 == 3 || random_.chance(0.5)};
  const bool last = number + 1 == options_.operations;
  const bool ends = number == options_.ends_at;
  const bool bad_key = ends && options_.ending == Ending::kRemoteAccess;
  const bool bad_memory = ends && options_.ending == Ending::kLocalProtection;
  if (bad_key) op.kind = Kind::kWrite;
  if (bad_memory) op.kind = Kind::kSend;
  op.signaled |= last;
  const std::uint32_t most = is_datagram() ? std::min(options_.longest, 1024u) : options_.longest;
  op.length = random_.chance(0.5) ? random_.between(8, 64) : random_.between(8, most);
  const std::size_t slot = std::size_t{number % kSlots} * options_.longest;
  Work work{.opcode = kOpcodes[static_cast<unsigned>(op.kind)],
            .flags = op.signaled ? abi::kCommandSignaled : std::uint8_t{0}};
  work.imm = number;
  if (options_.srq != nullptr) work.remote_srq = options_.srq->srq.number;
  work.remote_qpn = far_->qp.qpn.value;
  work.remote_qkey = kQkey;
  work.address_handle = ah_;
  if (random_.chance(0.2)) work.flags |= abi::kCommandFence;
  switch (op.kind) {
    case Kind::kWrite:
    case Kind::kWriteImm:
      work.remote_addr = remote_->addr() + slot;
      work.rkey = window_ != 0 && random_.chance(0.5) ? window_ : remote_->key;
      if (bad_key) work.rkey ^= 1;
      break;
    case Kind::kRead:
      op.length = std::min(op.length, kConstantBytes / 2);
      op.from = random_.below(kConstantBytes / 2);
      work.remote_addr = constant_->addr() + op.from;
      work.rkey = constant_->key;
      break;
    case Kind::kFetchAdd:
    case Kind::kCompareSwap:
      op.length = 8;
      op.original = count_;
      // The program does not know of the failure yet.
      if (fails() && number >= options_.ends_at) counted_ = counted_.value_or(count_);
      work.remote_addr = counter_->addr();
      work.rkey = counter_->key;
      if (op.kind == Kind::kFetchAdd) {
        work.compare_add = random_.between(1, 1000);
        count_ += work.compare_add;
      } else {
        work.compare_add = random_.chance(0.7) ? count_ : count_ + 1;
        work.swap = random_.next();
        if (work.compare_add == count_) count_ = work.swap;
      }
      break;
    case Kind::kSendInvalidate:
      work.rkey = std::exchange(window_, 0);
      break;
    default:
      break;
  }
  const bool fetches =
      op.kind == Kind::kRead || op.kind == Kind::kFetchAdd || op.kind == Kind::kCompareSwap;
  Buffer& local = fetches ? *sink_ : *source_;
  if (!fetches) {
    const auto bytes = message(number, op.length);
    std::copy(bytes.begin(), bytes.end(), local.data() + slot);
  }
  if (!fetches && !bad_memory && op.length <= 64 && random_.chance(0.5)) {
    work.flags |= abi::kCommandInline;
    work.bytes = message(number, op.length);
  } else {
    work.sge = {local.part(slot, op.length)};
    if (bad_memory) work.sge.front().lkey ^= 1;
  }
  operations_.push_back(op);
  world_.a->post(*near_, work, random_.chance(0.5) ? Process::Way::kVcb : Process::Way::kDoorbell);
}

void Lane::bind_window() {
  if (last_window_ == 0) last_window_ = world_.b->make_window();
  last_window_ ^= 1;
  binding_ = true;
  world_.b->post(*far_, {.opcode = Opcode::kBindWindow,
                         .imm = memory::kRemoteWrite,
                         .remote_addr = remote_->addr(),
                         .rkey = last_window_,
                         .compare_add = remote_->size,
                         .swap = remote_->key});
}

/// What the program asks of the adapter besides work.
void Lane::change_state() {
  engine::QpLifecycle& states = world_.a->adapter.engine.queue_pairs();
  engine::QueuePair& qp = near_->qp;
  if (options_.ending == Ending::kByProgram && operations_.size() > options_.ends_at &&
      qp.state != engine::QpState::kError)
    return states.enter_error(qp);
  if (!options_.drains || qp.state == engine::QpState::kError || !random_.chance(0.3)) return;
  draining_ = !draining_;
  if (draining_)
    states.enter_drain(qp, true);
  else
    states.enter_ready_to_send(qp, Psn());
}

void Lane::act() {
  change_state();
  if (receives != nullptr && options_.srq == nullptr) receives->post(far_->receives, random_);
  while (random_.chance(0.5) && operations_.size() < options_.operations &&
         operations_.size() - done_ < kDepth)
    post();
  const bool all_invalidated =
      window_ == 0 &&
      std::ranges::none_of(operations_.begin() + done_, operations_.end(),
                           [](const Operation& op) { return op.kind == Kind::kSendInvalidate; });
  if (options_.type == QpType::kRc && !fails() && !binding_ && all_invalidated &&
      random_.chance(0.1) && operations_.size() < options_.operations)
    bind_window();
}

// --- what comes of it

void Lane::completed(const Completed& completion) {
  const bool failed = completion.status != Status::kSuccess;
  require(!failed || may_fail(completion.index, completion.status), "send failed",
          static_cast<std::uint64_t>(completion.status));
  require(failed || !failed_, "a success after an error", completion.index);
  require(!failed_ || completion.index == done_, "not flushed", done_);
  require(completion.index >= done_ && completion.index < operations_.size(),
          "completion twice, or of nothing", completion.index);
  for (; done_ < completion.index; ++done_) {
    require(!operations_[done_].signaled, "completion missing", done_);
    check(done_, operations_[done_]);
  }
  failed_ |= failed;
  require(failed || operations_[done_].signaled, "completion of an unsignalled command", done_);
  if (!failed) check(done_, operations_[done_]);
  ++done_;
}

bool Lane::may_fail(std::uint32_t number, Status status) const {
  if (!fails()) return false;
  if (options_.ending == Ending::kByProgram || failed_) return status == Status::kFlushError;
  // The peer, which has failed, does not repeat an answer that was lost.
  if (options_.ending == Ending::kRemoteAccess && number <= options_.ends_at &&
      status == Status::kRetryExceededError)
    return true;
  return number == options_.ends_at &&
         status == (options_.ending == Ending::kRemoteAccess ? Status::kRemoteAccessError
                                                             : Status::kLocalProtectionError);
}

void Lane::check(std::uint32_t number, const Operation& op) {
  if (draws(op.kind)) last_drawn_ = number;
  const std::size_t slot = std::size_t{number % kSlots} * options_.longest;
  const auto expect = [&](const Buffer& in, std::span<const std::byte> bytes, const char* what) {
    const auto* at = reinterpret_cast<const std::byte*>(in.words.data()) + slot;
    require(std::equal(bytes.begin(), bytes.end(), at), what, number);
  };
  switch (op.kind) {
    case Kind::kWrite:
    case Kind::kWriteImm:
      if (is_reliable()) expect(*remote_, message(number, op.length), "wrong bytes written");
      return;
    case Kind::kRead:
      return expect(*sink_, pool_bytes(kConstantAs + op.from, op.length), "wrong bytes read");
    case Kind::kFetchAdd:
    case Kind::kCompareSwap:
      return expect(*sink_, std::as_bytes(std::span(&op.original, 1)), "wrong original value");
    default:
      return;
  }
}

void Lane::received(const Completed& completion) {
  if (completion.status == Status::kFlushError && options_.ending == Ending::kRemoteAccess) {
    far_failed_ = true;
    return void(receives->take(completion.index, 0));
  }
  require(!far_failed_, "a receive after flushed ones", completion.index);
  require(completion.status == Status::kSuccess, "receive failed",
          static_cast<std::uint64_t>(completion.status));
  const bool write = completion.opcode == abi::CompletionOpcode::kReceiveRdmaWithImm;
  const auto bytes = receives->take(completion.index, write ? 0 : completion.byte_len);
  std::uint32_t number = 0;
  if ((completion.flags & abi::kCompletionWithImm) != 0) {
    number = completion.imm;
  } else {
    const std::size_t skip = is_datagram() ? transport::kRoutingHeaderBytes : 0;
    require(bytes.size() >= skip + 8, "message too short", bytes.size());
    std::memcpy(&number, bytes.data() + skip + 4, sizeof number);
  }
  require(number >= next_message_, "message twice, or out of order", number);
  require(number < operations_.size() && draws(operations_[number].kind), "no such message",
          number);
  const bool gap = std::any_of(operations_.begin() + next_message_, operations_.begin() + number,
                               [&](const Operation& op) { return draws(op.kind); });
  require(!gap || !is_reliable(), "message missing", number);
  if (!write) {
    const auto expected = message(number, operations_[number].length);
    const std::span<const std::byte> body =
        std::span(bytes).subspan(is_datagram() ? transport::kRoutingHeaderBytes : 0);
    require(std::ranges::equal(body, expected), "wrong bytes received", number);
  }
  next_message_ = number + 1;
  ++messages_;
}

void Lane::bound(const Completed& completion) {
  require(completion.status == Status::kSuccess, "bind failed",
          static_cast<std::uint64_t>(completion.status));
  require(std::exchange(binding_, false), "bound twice");
  window_ = last_window_;
}

bool Lane::is_done() const {
  if (operations_.size() < options_.operations || done_ < operations_.size() || binding_)
    return false;
  if (!is_reliable()) return true;
  if (fails()) return last_drawn_ == kNone || next_message_ > last_drawn_;
  return std::none_of(operations_.begin() + next_message_, operations_.end(),
                      [&](const Operation& op) { return draws(op.kind); });
}

void Lane::expect_complete() const {
  if (is_reliable())
    require(counter_->words[0] == counted_.value_or(count_), "counter", counter_->words[0]);
  require(failed_ || !fails() || options_.ending == Ending::kByProgram, "no failure");
}

bool Lane::may_raise(engine::EventType type) const {
  using engine::EventType;
  if (type == EventType::kSendQueueDrained) return options_.drains;
  return options_.ending == Ending::kRemoteAccess &&
         (type == EventType::kQpAccessError || type == EventType::kQpLastWqeReached);
}

}  // namespace softhca::sim
