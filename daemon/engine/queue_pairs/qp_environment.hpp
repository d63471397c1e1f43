// SPDX-License-Identifier: Apache-2.0

// The engine as a transport state machine sees it, during one call.
#pragma once

#include <utility>

#include "daemon/engine/commands/command_store.hpp"
#include "daemon/engine/diagnostics/captures.hpp"
#include "daemon/engine/diagnostics/faults.hpp"
#include "daemon/engine/diagnostics/qp_history.hpp"
#include "daemon/engine/events/async_events.hpp"
#include "daemon/engine/memory/memory_access.hpp"
#include "daemon/engine/memory/memory_waits.hpp"
#include "daemon/engine/packets/congestion_control.hpp"
#include "daemon/engine/queue_pairs/ud_congestion.hpp"
#include "daemon/engine/receive/receive_queues.hpp"
#include "daemon/engine/records/qp_table.hpp"
#include "daemon/engine/turns/peer_rates.hpp"
#include "daemon/engine/turns/slow_memory.hpp"
#include "daemon/roce/transport/upcalls.hpp"

namespace softhca::engine {

/// Where commands end.
class CommandSink {
 public:
  virtual void complete_command(QueuePair& qp, PcbId pcb, Verdict verdict) = 0;

 protected:
  ~CommandSink() = default;
};

/// What transports use of the engine.
struct TransportParts {
  CommandSink& command_sink;
  CommandStore& commands;
  collect::PcbPool& pcbs;
  MemoryAccess& memory;
  ReceiveQueues& receives;
  CongestionControl& congestion;
  UdCongestion& ud_congestion;
  CpuScheduler& cpu;
  AsyncEvents& events;
  QpTable& queue_pairs;
  DurableState& state;
  PeerRates& peer_rates;
  SlowMemory& slow_memory;
  MemoryWaits& memory_waits;
  Captures& captures;
  Faults& faults;
  QpHistory& history;
};

class QpEnvironment final : public transport::PacketSink,
                            public transport::LocalMemory,
                            public transport::RemoteMemory,
                            public transport::ReceiveSource,
                            public transport::PeerLimits,
                            public transport::CompletionSink,
                            public transport::QueuePairEvents {
 public:
  QpEnvironment(const TransportParts& parts, QueuePair& qp)
      : QpEnvironment(parts, qp, qp.connection.route) {}
  /// For a datagram, which has its own route. `frame`: the current packet, if there is one.
  QpEnvironment(const TransportParts& parts, QueuePair& qp, Route& route,
                const wire::ParsedFrame* frame = nullptr)
      : parts_(parts), qp_(qp), route_(route), frame_(frame) {}

  transport::SendResult send(const wire::Headers& h,
                             const transport::PayloadSource& payload) override;
  Verdict store_response(PcbId pcb, std::uint32_t offset,
                         std::span<const std::byte> payload) override;
  void request_begun(PcbId pcb) override;
  void request_sent(PcbId pcb) override;
  void complete_request(PcbId pcb, Verdict verdict) override;

  Verdict choose_receive_queue(std::uint32_t xrc_srq) override;
  Verdict check_remote(Rkey rkey, std::uint64_t addr, std::uint64_t length,
                       transport::RemoteAccess access) override;
  Verdict write_remote(Rkey rkey, std::uint64_t addr, std::span<const std::byte> payload) override;
  Verdict atomic_remote(Rkey rkey, std::uint64_t addr, transport::RequestKind kind,
                        std::uint64_t compare_add, std::uint64_t swap, AtomicLog log) override;
  WasRun recall_atomic(Rkey rkey, std::uint64_t addr, bool writes, const AtomicStep& step) override;
  std::optional<std::uint64_t> draw_receive() override;
  Verdict refusal() override;
  Verdict store_receive(std::uint64_t offset, std::span<const std::byte> payload) override;
  Verdict store_routing_header() override;
  void complete_receive(const transport::ReceiveCompletion& completion) override;
  Verdict invalidate_key(Rkey rkey) override;
  std::optional<std::uint32_t> receive_credits() override;

  Duration request_wait(bool reads) override;
  bool drops_request() override {
    return parts_.slow_memory.is_slow(*qp_.tenant) || parts_.peer_rates.is_over(qp_);
  }
  void took_request(std::uint32_t bytes, bool begins_message) override {
    parts_.peer_rates.took(qp_, bytes, begins_message);
  }
  bool holds_response() override {
    return (parts_.slow_memory.any() && parts_.slow_memory.holds(qp_, *qp_.tenant)) ||
           parts_.peer_rates.holds_response(qp_);
  }
  void sent_response(std::uint32_t bytes, bool begins_message) override {
    parts_.peer_rates.served(qp_, bytes, begins_message);
  }

  void enter_error(std::optional<transport::AsyncEvent> event) override;
  void raise_event(transport::AsyncEvent event) override;
  void executed() override { qp_.store_taken(); }
  void explain(RefusalCause cause, std::uint64_t value = 0, std::uint64_t limit = 0) override;
  void count(transport::Count what, std::uint32_t n = 1) override;
  void count_at(transport::Count what, std::optional<Psn> psn, std::uint32_t figure = 0) override;

  /// Returns the place that check_remote() has found since the last call; null: none.
  RegionPlace take_checked() { return std::exchange(checked_, {}); }
  /// Records why the peer may not access the memory. Returns kRemoteAccess.
  Verdict refuse_access(Rkey rkey, memory::ByteRange range, transport::RemoteAccess access);
  /// Records why bytes of a message could not be stored in the receive, if so. Returns `verdict`.
  Verdict check_stored(Verdict verdict, std::uint64_t offset, std::uint64_t bytes);

 private:
  transport::SendResult send_packet(const wire::Headers& h,
                                    const transport::PayloadSource& payload);
  Verdict check_any_remote(Rkey rkey, std::uint64_t addr, std::uint64_t length,
                           transport::RemoteAccess access);
  Verdict write_any_remote(Rkey rkey, std::uint64_t addr, std::span<const std::byte> payload);
  std::optional<Psn> psn() const;
  Verdict refuse(const Refusal& refusal);

  const TransportParts& parts_;
  QueuePair& qp_;
  Route& route_;
  const wire::ParsedFrame* frame_;
  RegionPlace checked_;
};

}  // namespace softhca::engine
