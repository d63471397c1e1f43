// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/queue_pairs/local_link.hpp"

#include "daemon/engine/records/costs.hpp"
#include "daemon/roce/transport/segment.hpp"

namespace softhca::engine {

using transport::Request;
using transport::RequestKind;

namespace {

bool takes_messages(const QueuePair& peer) {
  return may_receive(peer.state) && !peer.error.pending;
}

/// Returns the access that the data of a write, read or atomic needs.
transport::RemoteAccess access_of(const Request& request) {
  if (transport::is_indivisible(request.kind)) return MemoryAccess::access_of(request.kind);
  return request.kind == RequestKind::kRead ? transport::RemoteAccess::kRead
                                            : transport::RemoteAccess::kWrite;
}

}  // namespace

const transport::LocalPeer* QpLocalLink::find_peer() {
  // Between the messages of a turn, only the state of the other end changes.
  if (peer_ != nullptr && takes_messages(*peer_)) [[likely]] {
    there_->take_checked();  // of the message before
    return &*end_;
  }
  QueuePair* const peer = connected_peer();
  auto* const there = peer != nullptr ? std::get_if<transport::Local>(&peer->transport) : nullptr;
  if (there == nullptr) return nullptr;
  peer_ = peer;
  there_.emplace(parts_, *peer);
  end_.emplace(transport::LocalPeer{.memory = *there_,
                                    .receives = *there_,
                                    .events = *there_,
                                    .expected = there->position().receive,
                                    .mtu = peer->rc.mtu,
                                    .max_dest_rd_atomic = peer->rc.max_dest_rd_atomic,
                                    .min_rnr_timer = peer->rc.min_rnr_timer});
  return &*end_;
}

/// Returns the queue pair at the other end if it is there and connected to this one, else null.
QueuePair* QpLocalLink::connected_peer() const {
  QueuePair* const peer = parts_.queue_pairs.find(qp_.connection.destination);
  if (peer == nullptr || peer->type != peer_type(qp_.type) || !takes_messages(*peer) ||
      peer->connection.destination != qp_.qpn)
    return nullptr;
  const AddressPath& here = qp_.connection.route.path;
  const AddressPath& there = peer->connection.route.path;
  if (there.destination != here.source &&
      !qp_.tenant->answers_to(here.source, there.destination, here.port))
    return nullptr;
  if (there.source != here.destination &&
      !peer->tenant->answers_to(there.source, here.destination, there.port))
    return nullptr;
  return peer;
}

/// True if the memory of either end is slow.
bool QpLocalLink::is_slow() const {
  return parts_.slow_memory.is_slow(*qp_.tenant) || parts_.slow_memory.is_slow(*peer_->tenant);
}

bool QpLocalLink::is_within_rate(const Request& request) const {
  if (!QpLocalLink::may_go_on()) return false;
  return !parts_.peer_rates.holds_message(qp_, *peer_, request.kind == RequestKind::kRead);
}

void QpLocalLink::wait_for_rate(const Request& request) {
  if (parts_.slow_memory.holds(qp_, *qp_.tenant) || parts_.slow_memory.holds(qp_, *peer_->tenant))
    return;
  parts_.peer_rates.wait(qp_, *peer_, request.kind == RequestKind::kRead);
}

transport::LocalLink::Draw QpLocalLink::draw() {
  switch (parts_.receives.draw(*peer_)) {
    case shm::Take::kTaken:
      return Draw::kTaken;
    case shm::Take::kEmpty:
      return Draw::kEmpty;
    case shm::Take::kHostile:
      break;
  }
  return Draw::kUnusable;
}

transport::LocalLink::Moved QpLocalLink::move(const Request& request, std::uint32_t offset,
                                              std::uint32_t bytes) {
  const MemoryWaits::Step step(parts_.memory_waits, qp_.slot, MemoryWaits::Side::kSend, offset);
  RegionPlace place;
  std::byte* far;
  if (transport::is_send(request.kind)) {
    far = parts_.memory.direct_receive(*peer_, offset, bytes);
  } else {
    // What the step has checked need not be looked up again.
    place = there_->take_checked();
    if (place.region == nullptr)
      place = parts_.memory.remote(*peer_, peer_->remote_pd(), request.rkey,
                                   request.remote_addr + offset, bytes, access_of(request));
    if (place.region == nullptr) return refuse_access(request, offset, bytes);
    far = place.region->direct(place.offset, bytes);
  }
  if (parts_.memory.move_direct(qp_, parts_.pcbs.pcb(request.pcb), offset, bytes, far,
                                request.kind == RequestKind::kRead)) [[likely]]
    return Moved();
  return move_runs(request, place, offset, bytes);
}

/// Does what move() does, whatever the memory at both ends is like. `place`: of the other end; null
/// for a send.
transport::LocalLink::Moved QpLocalLink::move_runs(const Request& request, RegionPlace place,
                                                   std::uint32_t offset, std::uint32_t bytes) {
  memory::ScatterList far;
  const bool sends = place.region == nullptr;
  if (sends) {
    const Verdict verdict = parts_.memory.resolve_receive(*peer_, offset, bytes, far);
    if (verdict != Verdict::kOk) return refuse_receive(verdict, offset, bytes);
  } else {
    far.entries[0] = {place.region, place.offset, bytes};
    far.count = 1;
  }
  bool peer_at_fault = true;
  const Verdict verdict =
      parts_.memory.move(qp_, parts_.pcbs.pcb(request.pcb), offset, bytes, far.view(),
                         request.kind == RequestKind::kRead, peer_at_fault);
  if (verdict == Verdict::kBusy) return Moved(verdict);
  if (verdict != Verdict::kOk && peer_at_fault) [[unlikely]]
    return sends ? refuse_receive(verdict, offset, bytes) : refuse_access(request, offset, bytes);
  return Moved(verdict, peer_at_fault);
}

transport::LocalLink::Moved QpLocalLink::run_atomic(const Request& request) {
  const MemoryWaits::Step step(parts_.memory_waits, qp_.slot, MemoryWaits::Side::kSend, 0);
  const collect::Pcb& command = parts_.pcbs.pcb(request.pcb);
  std::uint64_t swap = request.swap;
  const bool store = request.kind == RequestKind::kAtomicWrite;
  if (store) {
    const Verdict verdict =
        parts_.memory.gather(qp_, command, 0, std::as_writable_bytes(std::span(&swap, 1)));
    if (verdict != Verdict::kOk) return Moved(verdict);
  }
  transport::Replay& record = record_of_atomic();
  const bool has_run =
      qp_.sq.resumed && has_record(command.header.sequence) && record.state == AtomicState::kDone;
  if (!has_run) {
    qp_.record.durable->local_atomic = 0;
    keep_store_order();
    record.state = AtomicState::kNone;
    record.first = Psn(command.header.sequence);
    record.rkey = request.rkey;
    record.addr = request.remote_addr;
    record.xrc_srq = request.xrc_srq;
    record.empty = store;
    keep_store_order();
    qp_.record.durable->local_atomic = 1;
    const Verdict verdict =
        parts_.memory.atomic(*peer_, request.rkey, request.remote_addr, request.kind,
                             request.compare_add, swap, {record.step, record.state});
    if (verdict == Verdict::kBusy) return Moved(verdict);
    if (verdict == Verdict::kRemoteAccess) return refuse_access(request, 0, sizeof swap);
    if (verdict == Verdict::kRemoteInvalidRequest)
      there_->explain(RefusalCause::kNotAligned, request.remote_addr);
    if (verdict != Verdict::kOk) return Moved(verdict, true);
  }
  if (store) return Moved(Verdict::kOk, true);
  return Moved(
      parts_.memory.scatter(qp_, command, 0, std::as_bytes(std::span(&record.step.before, 1))));
}

/// Returns the record of the atomic that this end has sent last. It has no replays of its own,
/// which are those of a connection over the wire.
transport::Replay& QpLocalLink::record_of_atomic() {
  return parts_.state.replays(qp_.slot).all.front();
}

/// True if the record is that of the command.
bool QpLocalLink::has_record(std::uint32_t sequence) {
  return qp_.record.durable->local_atomic != 0 && record_of_atomic().first == Psn(sequence);
}

void QpLocalLink::resume() {
  if (find_peer() == nullptr || !has_record(qp_.sq.done)) return;
  transport::Replay& record = record_of_atomic();
  if (record.state != AtomicState::kIntent) return;
  if (qp_.type == QpType::kXrcSend) there_->choose_receive_queue(record.xrc_srq);
  switch (
      parts_.memory.recall_atomic(*peer_, record.rkey, record.addr, record.empty, record.step)) {
    case WasRun::kNo:
      record.state = AtomicState::kNone;
      break;
    case WasRun::kYes:
      record.state = AtomicState::kDone;
      break;
    case WasRun::kUnknown:
      parts_.events.raise(qp_, EventType::kQpFatal);
      parts_.cpu.fail_later(qp_, QpFailure::kFatal);
      break;
  }
}

/// Records why the other end refused the access to these bytes of the message, and returns its
/// verdict.
transport::LocalLink::Moved QpLocalLink::refuse_access(const Request& request, std::uint32_t offset,
                                                       std::uint32_t bytes) {
  return Moved(there_->refuse_access(request.rkey, {request.remote_addr + offset, bytes},
                                     access_of(request)),
               true);
}

/// Records why the receive of the other end could not take these bytes, and returns `verdict`.
transport::LocalLink::Moved QpLocalLink::refuse_receive(Verdict verdict, std::uint32_t offset,
                                                        std::uint32_t bytes) {
  return Moved(there_->check_stored(verdict, offset, bytes), true);
}

std::uint64_t QpLocalLink::charge(std::uint32_t bytes, bool begins) {
  const std::uint64_t cost = (begins ? kLocalMessageCost : 0) + bytes;
  parts_.cpu.add(cost);
  parts_.cpu.moved(bytes);
  return cost;
}

void QpLocalLink::begins(const Request& request) {
  parts_.memory_waits.begin_message(qp_.slot);
  parts_.cpu.moved(beyond_bytes(request.length));
  parts_.peer_rates.begins(qp_, *peer_, request.kind == RequestKind::kRead, request.length);
}

void QpLocalLink::arrived(const Request& request) {
  qp_.tenant->counters.local_messages.add();
  qp_.tenant->counters.local_bytes.add(request.length);
}

}  // namespace softhca::engine
