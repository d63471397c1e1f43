// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/queue_pairs/qp_environment.hpp"

#include <cstring>
#include <utility>

#include "daemon/base/probes.hpp"

namespace softhca::engine {
namespace {

EventType event_type(transport::AsyncEvent event) {
  switch (event) {
    case transport::AsyncEvent::kCommunicationEstablished:
      return EventType::kCommunicationEstablished;
    case transport::AsyncEvent::kInvalidRequest:
      return EventType::kQpRequestError;
    case transport::AsyncEvent::kAccessError:
      return EventType::kQpAccessError;
    case transport::AsyncEvent::kQpFatal:
      break;
  }
  return EventType::kQpFatal;
}

QpFailure cause_of(transport::AsyncEvent event) {
  switch (event) {
    case transport::AsyncEvent::kInvalidRequest:
      return QpFailure::kPeerInvalidRequest;
    case transport::AsyncEvent::kAccessError:
      return QpFailure::kPeerAccess;
    case transport::AsyncEvent::kCommunicationEstablished:
    case transport::AsyncEvent::kQpFatal:
      break;
  }
  return QpFailure::kFatal;
}

bool asks_for_data(const wire::Headers& h) {
  const wire::OpcodeMask& mask = wire::opcode_info(h.opcode).mask;
  return mask.has_all(wire::kRequest) && mask.has_any(wire::kRead | wire::kAtomic);
}

}  // namespace

/// The last packet of an unreliable message is recorded before it leaves: the next engine must not
/// send the message again.
transport::SendResult QpEnvironment::send(const wire::Headers& h,
                                          const transport::PayloadSource& payload) {
  if (is_reliable(qp_.type) || !wire::opcode_info(h.opcode).mask.has_all(wire::kEnd))
    return send_packet(h, payload);
  qp_.record.durable->attempted = qp_.sq.done + 1;
  keep_store_order();
  const transport::SendResult result = send_packet(h, payload);
  if (result != transport::SendResult::kSent) qp_.record.durable->attempted = qp_.sq.done;
  return result;
}

transport::SendResult QpEnvironment::send_packet(const wire::Headers& h,
                                                 const transport::PayloadSource& payload) {
  if (parts_.slow_memory.any() && (payload.length != 0 || asks_for_data(h)) &&
      parts_.slow_memory.holds(qp_, *qp_.tenant))
    return transport::SendResult::kNoBuffer;
  // A packet that waits for its payload is made again with the same number. Another packet has
  // another.
  const MemoryWaits::Step step(parts_.memory_waits, qp_.slot, MemoryWaits::Side::kSend,
                               h.psn.value());
  // Paced, then handed to PacketIo.
  const transport::SendResult result = parts_.congestion.send(qp_, route_, h, payload);
  if (result == transport::SendResult::kNoAccess &&
      payload.from == transport::PayloadSource::From::kRemote)
    refuse_access(payload.rkey, {payload.addr, payload.length}, transport::RemoteAccess::kRead);
  return result;
}

Verdict QpEnvironment::store_response(PcbId pcb, std::uint32_t offset,
                                      std::span<const std::byte> payload) {
  return parts_.memory.scatter(qp_, parts_.pcbs.pcb(pcb), offset, payload);
}

void QpEnvironment::request_begun(PcbId pcb) {
  const std::uint32_t sequence = parts_.pcbs.pcb(pcb).header.sequence;
  if (abi::is_sampled(sequence)) parts_.commands.samples().transmitted(qp_, sequence);
  probes::command_transmitted(qp_.qpn.value, sequence);
}

void QpEnvironment::request_sent(PcbId pcb) { parts_.commands.return_execution(pcb); }

void QpEnvironment::complete_request(PcbId pcb, Verdict verdict) {
  parts_.command_sink.complete_command(qp_, pcb, verdict);
}

Verdict QpEnvironment::choose_receive_queue(std::uint32_t xrc_srq) {
  const Verdict chosen = parts_.receives.choose(qp_, xrc_srq);
  if (chosen != Verdict::kOk) explain(RefusalCause::kNoXrcQueue, xrc_srq);
  return chosen;
}

Verdict QpEnvironment::check_remote(Rkey rkey, std::uint64_t addr, std::uint64_t length,
                                    transport::RemoteAccess access) {
  if (access != transport::RemoteAccess::kFlushRegion) {
    if (length == 0) return Verdict::kOk;
    checked_ = parts_.memory.in_region(qp_, qp_.remote_pd(), rkey, addr, length, access);
    if (checked_.region != nullptr) [[likely]]
      return Verdict::kOk;
  }
  return check_any_remote(rkey, addr, length, access);
}

/// Does what check_remote() does, also for keys of windows and whole regions.
Verdict QpEnvironment::check_any_remote(Rkey rkey, std::uint64_t addr, std::uint64_t length,
                                        transport::RemoteAccess access) {
  checked_ = parts_.memory.remote(qp_, qp_.remote_pd(), rkey, addr, length, access);
  if (checked_.region != nullptr) return Verdict::kOk;
  return refuse_access(rkey, {addr, length}, access);
}

Verdict QpEnvironment::write_remote(Rkey rkey, std::uint64_t addr,
                                    std::span<const std::byte> payload) {
  const RegionPlace place = parts_.memory.in_region(
      qp_, qp_.remote_pd(), rkey, addr, payload.size(), transport::RemoteAccess::kWrite);
  std::byte* const at =
      place.region != nullptr ? place.region->direct(place.offset, payload.size()) : nullptr;
  if (at == nullptr) [[unlikely]]
    return write_any_remote(rkey, addr, payload);
  memory::keep_order();
  std::memcpy(at, payload.data(), payload.size());
  return Verdict::kOk;
}

/// Does what write_remote() does, whatever the memory is like.
Verdict QpEnvironment::write_any_remote(Rkey rkey, std::uint64_t addr,
                                        std::span<const std::byte> payload) {
  const auto place = parts_.memory.remote(qp_, qp_.remote_pd(), rkey, addr, payload.size(),
                                          transport::RemoteAccess::kWrite);
  if (place.region != nullptr) {
    const Verdict written = memory::write(*place.region, place.offset, payload);
    if (written == Verdict::kOk || written == Verdict::kBusy) return written;
  }
  return refuse_access(rkey, {addr, payload.size()}, transport::RemoteAccess::kWrite);
}

Verdict QpEnvironment::atomic_remote(Rkey rkey, std::uint64_t addr, transport::RequestKind kind,
                                     std::uint64_t compare_add, std::uint64_t swap, AtomicLog log) {
  const Verdict verdict = parts_.memory.atomic(qp_, rkey, addr, kind, compare_add, swap, log);
  if (verdict != Verdict::kRemoteAccess) return verdict;
  return refuse_access(rkey, {addr, sizeof swap}, MemoryAccess::access_of(kind));
}

WasRun QpEnvironment::recall_atomic(Rkey rkey, std::uint64_t addr, bool writes,
                                    const AtomicStep& step) {
  return parts_.memory.recall_atomic(qp_, rkey, addr, writes, step);
}

/// A read request has no payload, so only the memory that it reads matters.
Duration QpEnvironment::request_wait(bool reads) {
  const Duration wait =
      parts_.slow_memory.any() ? parts_.slow_memory.request_wait(qp_) : Duration::zero();
  return reads || wait != Duration::zero() ? wait : parts_.peer_rates.request_wait(qp_);
}

std::optional<std::uint64_t> QpEnvironment::draw_receive() {
  if (parts_.faults.on() && parts_.faults.withholds(qp_)) [[unlikely]]
    return std::nullopt;
  // A receive may be left from a local datagram that did not fit.
  if (!qp_.rq.drawn && parts_.receives.draw(qp_) != shm::Take::kTaken) return std::nullopt;
  return qp_.rq.work->bytes;
}

Verdict QpEnvironment::refusal() {
  if (!qp_.rq.given_up) return Verdict::kReceiverNotReady;
  parts_.events.raise(qp_, EventType::kQpFatal);
  return Verdict::kRemoteOperation;
}

Verdict QpEnvironment::store_receive(std::uint64_t offset, std::span<const std::byte> payload) {
  return check_stored(parts_.memory.scatter_receive(qp_, offset, payload), offset, payload.size());
}

Verdict QpEnvironment::store_routing_header() {
  std::array<std::byte, wire::kGrhLength> header;
  wire::grh_bytes(*frame_, header);
  return check_stored(parts_.memory.scatter_receive(qp_, 0, header), 0, header.size());
}

void QpEnvironment::complete_receive(const transport::ReceiveCompletion& completion) {
  transport::ReceiveCompletion complete = completion;
  complete.is_ipv4 = completion.has_grh && frame_->is_ipv4;
  if (completion.verdict != Verdict::kOk && completion.verdict != Verdict::kFlushed) {
    parts_.history.add(qp_, QpEventKind::kReceiveFailed,
                       {.detail = static_cast<std::uint32_t>(completion.verdict), .psn = psn()});
    complete.imm = vendor_error(parts_.history.refusal(qp_));
  }
  parts_.receives.complete(qp_, complete);
}

// A peer can only invalidate memory windows of type 2, not regions.
Verdict QpEnvironment::invalidate_key(Rkey rkey) {
  return parts_.memory.invalidate(qp_, rkey, qp_.rq.resumed) == Verdict::kOk
             ? Verdict::kOk
             : refuse(parts_.memory.explain_invalidate(qp_, rkey));
}

std::optional<std::uint32_t> QpEnvironment::receive_credits() {
  if (!qp_.receives()) return std::nullopt;
  return qp_.rq.ring.available();
}

void QpEnvironment::enter_error(std::optional<transport::AsyncEvent> event) {
  if (event) raise_event(*event);
  if (qp_.rq.given_up) return parts_.cpu.fail_later(qp_, QpFailure::kDrewTooMuch);
  parts_.cpu.fail_later(qp_, event ? cause_of(*event) : QpFailure::kReceiveNotWritten);
}

void QpEnvironment::raise_event(transport::AsyncEvent event) {
  if (event == transport::AsyncEvent::kCommunicationEstablished) {
    if (qp_.state != QpState::kRtr || qp_.connection.established_raised) return;
    qp_.connection.established_raised = true;
  }
  parts_.events.raise(qp_, event_type(event));
}

void QpEnvironment::count(transport::Count what, std::uint32_t n) {
  if (!QpHistory::has_event(what)) [[likely]]
    return qp_.count(what, n);
  parts_.history.count(qp_, what, n, psn());
}

void QpEnvironment::count_at(transport::Count what, std::optional<Psn> psn, std::uint32_t figure) {
  parts_.history.count(qp_, what, 1, psn, figure);
}

/// Returns the PSN of the current packet, if there is one.
std::optional<Psn> QpEnvironment::psn() const {
  if (frame_ == nullptr) return std::nullopt;
  return frame_->headers.psn;
}

void QpEnvironment::explain(RefusalCause cause, std::uint64_t value, std::uint64_t limit) {
  const bool of_receive = cause == RefusalCause::kReceiveTooShort;
  Refusal out{.cause = cause,
              .side = of_receive ? RefusalSide::kReceive : RefusalSide::kServed,
              .length = value,
              .limit = limit};
  if (cause == RefusalCause::kNotAligned) std::swap(out.address, out.length);
  if (frame_ != nullptr)
    out.more_follows = !wire::opcode_info(frame_->headers.opcode).mask.has_all(wire::kEnd);
  parts_.history.refuse(qp_, out);
}

Verdict QpEnvironment::refuse_access(Rkey rkey, memory::ByteRange range,
                                     transport::RemoteAccess access) {
  return refuse(parts_.memory.explain_remote(qp_, qp_.remote_pd(), rkey, range, access,
                                             parts_.history.now()));
}

Verdict QpEnvironment::refuse(const Refusal& refusal) {
  parts_.history.add(qp_, QpEventKind::kAccessRefused, {.detail = refusal.key, .psn = psn()});
  parts_.history.refuse(qp_, refusal);
  return Verdict::kRemoteAccess;
}

Verdict QpEnvironment::check_stored(Verdict verdict, std::uint64_t offset, std::uint64_t bytes) {
  if (verdict != Verdict::kOk && verdict != Verdict::kBusy) [[unlikely]]
    parts_.history.refuse(
        qp_, parts_.memory.explain_receive(qp_, {offset, bytes}, parts_.history.now()));
  return verdict;
}

}  // namespace softhca::engine
