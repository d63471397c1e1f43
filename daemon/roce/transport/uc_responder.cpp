// SPDX-License-Identifier: Apache-2.0

#include <bit>
#include <cassert>
#include <utility>

#include "daemon/roce/transport/segment.hpp"
#include "daemon/roce/transport/uc.hpp"

namespace softhca::transport {

void UcResponder::configure(const UcAttributes& attributes) {
  assert(std::has_single_bit(attributes.mtu));
  attributes_ = attributes;
}

void UcResponder::reset(Psn rq_psn) {
  expected_ = rq_psn;
  message_.reset();
  bad_accesses_ = 0;
  failed_ = resumes_ = false;
}

void UcResponder::flush(const ReceiverUpcalls& up) {
  failed_ = true;
  resumes_ = false;
  message_.end();
  message_.fail_receive(up.receives, Verdict::kFlushed);
}

/// Handles a packet. A failed check drops the message in progress; its rest is then out of
/// sequence.
void UcResponder::receive(const ReceiverUpcalls& up, const wire::Headers& h,
                          std::span<const std::byte> payload) {
  if (failed_) return up.events.count(Count::kBadState);
  const wire::OpcodeInfo& info = wire::opcode_info(h.opcode);
  if (info.transport != wire::Transport::kUc) return up.events.count(Count::kBadOpcode);
  const RequestPacket p{h, payload, info.mask};
  if (resumes_) return finish_packet(up, p);
  if (!check_psn(up, p)) return;
  if (!check_sequence(p)) {
    message_.end();
    return up.events.count(Count::kOutOfSequence);
  }
  if (!check_length(p)) {
    up.events.explain(RefusalCause::kPayloadLength, p.payload.size(), attributes_.mtu);
    message_.end();
    return up.events.count(Count::kBadLength);
  }
  if (up.limits.drops_request()) {
    message_.end();
    return up.events.count(Count::kRateDropped);
  }
  finish_packet(up, p);
}

/// Executes a packet after the checks, and again if its memory was busy.
void UcResponder::finish_packet(const ReceiverUpcalls& up, const RequestPacket& p) {
  const bool begun = std::exchange(resumes_, false);
  const bool taken = take(up, p, begun);
  if (resumes_) return;
  if (!taken) message_.end();
  up.events.executed();
  if (!taken) return;
  up.limits.took_request(static_cast<std::uint32_t>(p.payload.size()), p.starts());
}

bool UcResponder::check_psn(const ReceiverUpcalls& up, const RequestPacket& p) {
  const std::int32_t distance = p.h.psn.distance_from(expected_);
  if (is_late(distance)) {
    up.events.count(Count::kDuplicateRequests);
    return false;
  }
  if (distance != 0) {
    up.events.count(Count::kOutOfSequence);
    message_.end();
  }
  expected_ = p.h.psn + 1;
  return true;
}

/// True if the packet fits the message. A first packet ends an unfinished message (9.8.2.2.2).
bool UcResponder::check_sequence(const RequestPacket& p) const {
  return p.starts() || message_.goes_on_with(p);
}

bool UcResponder::check_length(const RequestPacket& p) const {
  if (!p.fits_opcode(attributes_.mtu)) return false;
  return !p.mask.has_all(wire::kWrite) || message_.fits_announcement(p);
}

bool UcResponder::begin(const ReceiverUpcalls& up, const RequestPacket& p) {
  if (p.mask.has_all(wire::kSend)) {
    message_.begin_send();
    return draw(up);
  }
  message_.begin_write(p.h);
  return up.memory.check_remote(p.h.rkey, p.h.remote_addr, p.h.dma_length, RemoteAccess::kWrite) ==
             Verdict::kOk ||
         refuse_access(up);
}

/// Counts a bad access and returns false. A peer that tries many keys ends the connection.
bool UcResponder::refuse_access(const ReceiverUpcalls& up) {
  up.events.count(Count::kBadAccess);
  if (++bad_accesses_ < kMostBadAccesses) return false;
  flush(up);
  up.events.enter_error(AsyncEvent::kAccessError);
  return false;
}

/// Executes a packet. Returns false if the message is dropped; its drawn receive stays for the
/// next.
bool UcResponder::take(const ReceiverUpcalls& up, const RequestPacket& p, bool begun) {
  if (p.starts() && !begun && !begin(up, p)) return false;
  if (message_.is_send()) {
    if (!message_.has_room(p.payload.size())) {
      message_.explain_no_room(up.events, p.payload.size());
      up.events.count(Count::kBadLength);
      return false;
    }
    const Verdict stored = message_.store(up.receives, p.payload);
    resumes_ = stored == Verdict::kBusy;
    if (resumes_) return false;
    if (stored != Verdict::kOk) {
      fail(up, stored);
      return false;
    }
  } else {
    if (p.mask.has_all(wire::kImmDt) && !draw(up)) return false;
    const Verdict written = message_.write(up.memory, p.payload);
    resumes_ = written == Verdict::kBusy;
    if (resumes_) return false;
    if (written != Verdict::kOk) return refuse_access(up);
  }
  if (p.ends()) finish(up, p);
  return true;
}

bool UcResponder::draw(const ReceiverUpcalls& up) {
  if (message_.draw(up.receives)) return true;
  up.events.count(Count::kReceiveDropped);
  return false;
}

void UcResponder::finish(const ReceiverUpcalls& up, const RequestPacket& p) {
  const bool write = !message_.is_send();
  if (write) up.events.count(Count::kWriteRequests);
  if (!write || p.mask.has_all(wire::kImmDt)) message_.complete_receive(up.receives, p);
  message_.end();
}

/// Ends the queue pair after an error of the consumer's receive, which is completed with the cause.
void UcResponder::fail(const ReceiverUpcalls& up, Verdict verdict) {
  failed_ = true;
  message_.fail_receive(up.receives, verdict);
  up.events.enter_error(std::nullopt);
}

}  // namespace softhca::transport
