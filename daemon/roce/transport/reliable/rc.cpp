// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/transport/reliable/rc.hpp"

namespace softhca::transport {

void Rc::configure(const RcAttributes& attributes, const ResponderStores& stores, bool responds) {
  responds_ = responds;
  requester_.configure(attributes);
  RcAttributes theirs = attributes;
  if (!responds) theirs.max_dest_rd_atomic = 0;
  responder_.configure(theirs, stores);
}

void Rc::reset() {
  requester_.reset(Psn());
  responder_.reset(Psn());
  responder_.release();
}

WirePosition Rc::position() const {
  const SentPosition sent = requester_.sent();
  const TakenPosition taken = responder_.position();
  return {.send = sent.psn,
          .send_sequence = sent.sequence,
          .receive = taken.expected,
          .receive_sequence = taken.sequence};
}

void Rc::resume(const WirePosition& position) {
  requester_.reset({position.send, position.send_sequence});
  responder_.resume(position.receive, position.receive_sequence);
}

bool Rc::transmit(const RcUpcalls& up, Time now, unsigned packet_budget) {
  const bool owes = responder_.transmit(up.responder, packet_budget);
  // In RTR there is nothing to send; in the error state the requester is silent.
  return requester_.transmit(up.requester, now, packet_budget) || owes;
}

bool Rc::receive(const RcUpcalls& up, const wire::Headers& h, std::span<const std::byte> payload,
                 Time now) {
  if (wire::opcode_info(h.opcode).mask.has_any(wire::kResponse))
    requester_.receive(up.requester, h, payload, now);
  else if (responds_)
    responder_.receive(up.responder, h, payload, now);
  else
    up.requester.events.count(Count::kBadOpcode);
  return true;
}

void Rc::flush(const RcUpcalls& up) {
  requester_.flush(up.requester);
  responder_.flush(up.responder);
}

std::optional<wire::Headers> Rc::take_leave(const RcUpcalls& up, unsigned packet_budget) {
  if (!responds_) return std::nullopt;
  responder_.transmit(up.responder, packet_budget);
  return responder_.last_acknowledgement(up.responder);
}

}  // namespace softhca::transport
