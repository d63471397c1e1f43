// SPDX-License-Identifier: Apache-2.0

// Local delivery while captures are on. This link stands between the transport and the link of a
// queue pair for one turn, and forwards the calls. It reports to captures the packets that a wire
// transport would have sent: each message in packets of the path MTU, and acknowledged at once.
#pragma once

#include <optional>

#include "daemon/engine/queue_pairs/local_link.hpp"

namespace softhca::engine {

class CapturedLink final : public transport::LocalLink,
                           public transport::CompletionSink,
                           public transport::QueuePairEvents {
 public:
  /// REQUIRES: the queue pair is local, and captures are on.
  CapturedLink(const TransportParts& parts, QueuePair& qp, QpLocalLink& link, QpEnvironment& env,
               Time now);
  /// Ends the turn; reports a request that found no peer.
  void end_turn();

  // --- LocalLink
  bool goes_on() const override { return link_.goes_on(); }
  bool may_go_on() const override { return link_.may_go_on(); }
  const transport::LocalPeer* find_peer() override;
  bool is_within_rate(const transport::Request& request) const override {
    return link_.is_within_rate(request);
  }
  void wait_for_rate(const transport::Request& request) override { link_.wait_for_rate(request); }
  bool waits_for_rate() const override { return link_.waits_for_rate(); }
  bool has_drawn() const override { return link_.has_drawn(); }
  bool has_receive() const override { return link_.has_receive(); }
  Draw draw() override { return link_.draw(); }
  std::uint64_t drawn_bytes() const override { return link_.drawn_bytes(); }
  Moved move(const transport::Request& request, std::uint32_t offset, std::uint32_t bytes) override;
  Moved run_atomic(const transport::Request& request) override;
  std::uint64_t charge(std::uint32_t bytes, bool begins) override {
    return link_.charge(bytes, begins);
  }
  void begins(const transport::Request& request) override;
  void arrived(const transport::Request& request) override;

  // --- CompletionSink
  void request_begun(PcbId pcb) override { env_.request_begun(pcb); }
  void request_sent(PcbId pcb) override { env_.request_sent(pcb); }
  void complete_request(PcbId pcb, Verdict verdict) override;

  // --- QueuePairEvents
  void explain(RefusalCause cause, std::uint64_t value, std::uint64_t limit) override {
    env_.explain(cause, value, limit);
  }
  void enter_error(std::optional<transport::AsyncEvent> event) override { env_.enter_error(event); }
  void raise_event(transport::AsyncEvent event) override { env_.raise_event(event); }
  void count(transport::Count what, std::uint32_t n) override;
  void count_at(transport::Count what, std::optional<Psn> psn, std::uint32_t figure) override;

 private:
  const transport::Local& local() const { return std::get<transport::Local>(qp_.transport); }
  std::uint32_t packets() const;
  Psn psn(std::uint32_t index) const;
  void begin_message();
  void show_refused(transport::Count what);
  CaptureRemark unanswered_remark() const;
  void show_moved(std::uint32_t offset, std::uint32_t bytes);
  void show_request(std::uint32_t index, CaptureRemark remark = CaptureRemark::kNone);
  wire::Headers make_request(std::uint32_t index) const;
  void show_response(std::uint32_t index);
  void show_atomic_response();
  void show_acknowledgement(Psn psn, std::uint8_t syndrome);
  std::uint8_t credits() const;
  void answer(wire::Opcode opcode, wire::Headers h, const transport::PayloadSource& payload);
  std::span<const std::byte> build(const Route& route, const wire::Headers& h,
                                   const transport::PayloadSource& payload);

  const TransportParts& parts_;
  QueuePair& qp_;
  QpLocalLink& link_;
  QpEnvironment& env_;
  const Time now_;
  const std::uint32_t mtu_shift_;
  CapturedFlow& flow_;
  const transport::LocalPeer* peer_ = nullptr;  ///< as of the last find_peer()
  // The oldest request at the last find_peer(), and what has happened to it since.
  transport::Request request_;
  std::optional<DropWatch> watch_;
  bool told_ = false;        ///< its last packet was reported, or its refusal
  bool arrived_ = false;     ///< it arrived whole
  bool unanswered_ = false;  ///< it has no peer, and is sent (again) without an answer
};

}  // namespace softhca::engine
