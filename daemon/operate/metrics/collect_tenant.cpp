// SPDX-License-Identifier: Apache-2.0

// The work of a tenant.
#include <utility>

#include "daemon/engine/state/costs.hpp"
#include "daemon/operate/metrics/collect.hpp"

namespace softhca::metrics {
namespace {

using transport::Count;

/// A transport counter. Its metric has the name of node_exporter or mlx5 if one of these has such a
/// metric.
struct TransportMetric {
  Count count;
  const char* name;
  const char* help;
};
constexpr TransportMetric kTransportMetrics[] = {
    {Count::kRetransmittedPackets, "softhca_retransmitted_packets_total",
     "Request packets retransmitted."},
    {Count::kAckTimeouts, "softhca_local_ack_timeout_errors_total",
     "Acknowledgement timers that ran out."},
    {Count::kEarlyRetries, "softhca_early_retries_total",
     "Retries before the timeout, started by the round-trip time."},
    {Count::kProbes, "softhca_probes_total",
     "Probes to peers that were silent for two round trips."},
    {Count::kDuplicateRequests, "softhca_duplicate_requests_packets_total",
     "Request packets received again."},
    {Count::kOutOfSequence, "softhca_out_of_sequence_packets_received_total",
     "Request packets beyond the expected sequence number."},
    {Count::kImpliedNak, "softhca_implied_nak_seq_errors_total",
     "Read or atomic responses that were skipped."},
    {Count::kWriteRequests, "softhca_rx_write_requests_total", "Writes received from peers."},
    {Count::kReadRequests, "softhca_rx_read_requests_total", "Reads received from peers."},
    {Count::kAtomicRequests, "softhca_rx_atomic_requests_total", "Atomics received from peers."},
    {Count::kAcksSent, "softhca_acks_sent_total", "Acknowledgements sent."},
    {Count::kAcksReceived, "softhca_acks_received_total", "Acknowledgements received."},
    {Count::kReceiveDropped, "softhca_out_of_buffer_drops_total",
     "UC and UD messages without a receive request."},
    {Count::kSparedPackets, "softhca_spared_packets_total",
     "Request packets after a lost one that were not retransmitted because the peer had buffered "
     "them."},
    {Count::kGhostAck, "softhca_ghost_responses_total", "Responses that match no request."},
    {Count::kRateNakSent, "softhca_rate_naks_sent_total",
     "RNR NAKs sent to requests beyond an inbound rate."},
};

struct NakMetric {
  Count sent;
  Count received;
  const char* kind;
};
constexpr NakMetric kNaks[] = {
    {Count::kRnrNakSent, Count::kRnrNakReceived, "receiver_not_ready"},
    {Count::kSequenceNakSent, Count::kSequenceNakReceived, "sequence"},
    {Count::kInvalidNakSent, Count::kInvalidNakReceived, "invalid_request"},
    {Count::kAccessNakSent, Count::kAccessNakReceived, "remote_access"},
    {Count::kOperationNakSent, Count::kOperationNakReceived, "remote_operation"},
};

struct DropMetric {
  Count count;
  const char* reason;
};
constexpr DropMetric kTenantDrops[] = {
    {Count::kBadOpcode, "bad_opcode"}, {Count::kBadState, "bad_state"},
    {Count::kBadLength, "bad_length"}, {Count::kBadQkey, "bad_qkey"},
    {Count::kRateDropped, "rate"},     {Count::kBadAccess, "access"},
};

/// Adds the waits of a level or, if `level` is null, of commands without a level.
void add_waits(Families& out, const engine::Tenant& tenant, const engine::Level* level) {
  const engine::WaitCounters& waits =
      level == nullptr ? tenant.counters.waits : level->counters.waits;
  const Labels labels = labels_of(tenant, level);
  for (std::size_t i = 0; i < waits.time.size(); ++i)
    out.counter("softhca_command_wait_seconds_total",
                "Time that send commands have waited, by cause, summed over all commands.",
                with(labels, "cause", engine::name_of(static_cast<engine::WaitCause>(i))),
                number(waits.time[i]) * 1e-9);
  for (std::size_t i = 0; i < waits.not_kept.size(); ++i)
    out.counter("softhca_guarantee_not_kept_seconds_total",
                "Time in which commands waited for a guaranteed resource.",
                with(labels, "resource", engine::name_of(static_cast<engine::Guarantee>(i))),
                number(waits.not_kept[i]) * 1e-9);
  for (std::size_t i = 0; i < waits.of_one.size(); ++i)
    if (waits.of_one[i].count() != 0)
      out.histogram("softhca_command_waited_seconds",
                    "Time that single commands waited, by cause; one command in 61 is sampled.",
                    with(labels, "cause", engine::name_of(static_cast<engine::WaitCause>(i))),
                    waits.of_one[i], 4096, std::uint64_t{1} << 34, 1e-9);
  for (std::size_t i = 0; i < waits.in_stage.size(); ++i)
    if (waits.in_stage[i].count() != 0)
      out.histogram("softhca_command_stage_seconds",
                    "Time that single commands spent in each stage, from post to successful end; "
                    "one command in 61 is sampled.",
                    with(labels, "stage", engine::name_of(static_cast<engine::CommandStage>(i))),
                    waits.in_stage[i], 64, std::uint64_t{1} << 34, 1e-9);
  out.histogram("softhca_command_seconds",
                "Time from a command's kick to its successful end; one command in 61 is sampled.",
                labels, waits.duration, 1024, std::uint64_t{1} << 34, 1e-9);
}

/// Adds the rates of what peers send to, and read from, a tenant or, if `level` is not null, one of
/// its levels.
void add_peer_rates(Families& out, const engine::Tenant& tenant, const engine::Level* level) {
  const bool whole = level == nullptr;
  const engine::PeerGates& gates = whole ? tenant.peer_rates : level->peer_rates;
  const Labels labels = whole ? Labels{{"tenant", tenant.name}} : labels_of(tenant, level);
  for (const auto& [direction, gate] :
       {std::pair("inbound", &gates.inbound), std::pair("served", &gates.served)}) {
    const Labels of = with(labels, "direction", direction);
    out.gauge(whole ? "softhca_peers_throttled" : "softhca_level_peers_throttled",
              "1 while peers have used up a rate of what they may send or read.", of,
              gate->held.value());
    out.counter(whole ? "softhca_peers_throttled_seconds_total"
                      : "softhca_level_peers_throttled_seconds_total",
                "Time in which peers had used up a rate of what they may send or read, added when "
                "that ends.",
                of, number(gate->held_ns) * 1e-9);
    out.counter(whole ? "softhca_peers_rated_bytes_total" : "softhca_level_peers_rated_bytes_total",
                "Bytes that peers sent or read while a rate limited them.", of,
                number(gate->bytes));
  }
}

void add_arbitration_wait(Families& out, const char* name, const Labels& labels,
                          const Histogram& wait) {
  out.histogram(name, "Time from a command's kick to its start.", labels, wait, 256,
                std::uint64_t{1} << 34, 1e-9);
}

}  // namespace

void add_transport(Families& out, const engine::Tenant& tenant) {
  const auto value = [&](Count c) { return static_cast<double>(tenant.counters.value(c)); };
  const std::string& name = tenant.name;
  for (const TransportMetric& m : kTransportMetrics)
    out.counter(m.name, m.help, {{"tenant", name}}, value(m.count));
  for (const NakMetric& m : kNaks) {
    out.counter("softhca_naks_sent_total", "Negative acknowledgements sent.",
                {{"tenant", name}, {"kind", m.kind}}, value(m.sent));
    out.counter("softhca_naks_received_total", "Negative acknowledgements received.",
                {{"tenant", name}, {"kind", m.kind}}, value(m.received));
  }
  for (const DropMetric& m : kTenantDrops)
    out.counter("softhca_tenant_dropped_packets_total",
                "Packets that the transport of their queue pair refused.",
                {{"tenant", name}, {"reason", m.reason}}, value(m.count));
  const Labels labels{{"tenant", name}};
  out.gauge("softhca_kept_packets",
            "Buffered request packets of peers that wait for an earlier one.", labels,
            tenant.kept.held.value());
  out.counter("softhca_kept_packets_total",
              "Request packets of peers that were buffered until an earlier one came.", labels,
              number(tenant.kept.kept));
  out.counter("softhca_kept_packets_given_up_total",
              "Buffered packets dropped because the tenant, or all tenants, buffered too many.",
              labels, number(tenant.kept.given_up));
}

/// Adds the commands by the way they arrived, and those that went back to their send queue.
void add_commands(Families& out, const engine::Tenant& tenant) {
  const engine::TenantCounters& c = tenant.counters;
  const Labels labels{{"tenant", tenant.name}};
  out.counter("softhca_commands_total", "Commands by the way they came.",
              {{"tenant", tenant.name}, {"way", "vcb"}}, number(c.commands_vcb));
  out.counter("softhca_commands_total", "Commands by the way they came.",
              {{"tenant", tenant.name}, {"way", "doorbell"}}, number(c.commands_doorbell));
  for (std::size_t i = 0; i < c.collect.kicks.size(); ++i)
    out.counter("softhca_vcb_commands_total", "Commands handed over in VCBs, by kind of kick.",
                with(labels, "kick", engine::name_of(static_cast<engine::Kick>(i))),
                number(c.collect.kicks[i]));
  out.counter("softhca_vcb_commands_in_pieces_total",
              "Commands handed over in VCBs and collected in several parts.", labels,
              number(c.collect.in_pieces));
  out.counter("softhca_vcb_commands_withdrawn_total",
              "Commands that programs began in VCBs and withdrew.", labels,
              number(c.collect.withdrawn));
  for (std::size_t i = 0; i < c.send_queue_cause.size(); ++i)
    out.counter("softhca_send_queue_mode_total", "VCB commands that became doorbells, by cause.",
                with(labels, "cause", engine::name_of(static_cast<engine::SendQueueCause>(i))),
                number(c.send_queue_cause[i]));
  out.counter("softhca_commands_given_back_total",
              "Started commands returned to their send queue because they could not be sent.",
              labels, number(c.commands_given_back));
  out.gauge("softhca_stalled_queue_pairs",
            "Queue pairs that wait for their peer to post a receive or to reply.", labels,
            c.stalled_queue_pairs.value());
  out.gauge("softhca_set_aside_queue_pairs",
            "Queue pairs parked until their next command may start. It waits for earlier commands, "
            "credits of the peer, congestion control, or the link address of the next hop.",
            labels, c.set_aside_queue_pairs.value());
  for (std::size_t i = 0; i < c.doorbells.size(); ++i)
    out.counter("softhca_doorbells_total", "Doorbells rung by processes, by cause.",
                with(labels, "cause", engine::name_of(static_cast<engine::DoorbellCause>(i))),
                number(c.doorbells[i]));
}

void add_work(Families& out, const engine::Tenant& tenant) {
  const engine::TenantCounters& c = tenant.counters;
  const Labels labels{{"tenant", tenant.name}};
  const auto both = [&](const char* name, const char* help, const Counter& tx, const Counter& rx) {
    out.counter(name, help, {{"tenant", tenant.name}, {"direction", "transmit"}},
                static_cast<double>(tx.value()));
    out.counter(name, help, {{"tenant", tenant.name}, {"direction", "receive"}},
                static_cast<double>(rx.value()));
  };
  const auto one = [&](const char* name, const char* help, const Counter& counter) {
    out.counter(name, help, labels, static_cast<double>(counter.value()));
  };
  both("softhca_packets_total", "RoCE packets by port.", c.wire.tx_packets, c.wire.rx_packets);
  both("softhca_payload_bytes_total", "Payload of RoCE packets.", c.wire.tx_bytes, c.wire.rx_bytes);
  one("softhca_local_messages_total", "Messages between queue pairs of this daemon.",
      c.local_messages);
  one("softhca_local_bytes_total", "Payload of messages between queue pairs of this daemon.",
      c.local_bytes);
  out.counter("softhca_engine_seconds_total", "Engine time for the tenant.", labels,
              number(c.engine_time) / engine::kUnitsPerSecond);
  add_arbitration_wait(out, "softhca_arbitration_wait_seconds", labels, c.arbitration_wait);
  out.summary("softhca_command_engine_seconds",
              "Time that the engine worked, for all tenants, from when a command became visible to "
              "its successful end.",
              labels, c.command_engine_time, 1e-9);
  out.counter("softhca_throttled_seconds_total",
              "Time in which the tenant's rate limited it, added when that ends.", labels,
              number(tenant.rate.held_ns) * 1e-9);
  out.gauge("softhca_throttled", "1 while the tenant's rate limits it.", labels,
            tenant.rate.held.value());
  one("softhca_minimum_bytes_total",
      "Bytes served first because the tenant was behind its minimum rate.",
      tenant.rate.minimum_bytes);
  add_peer_rates(out, tenant, nullptr);
  one("softhca_completions_total", "Completion queue entries written.", c.completion.completions);
  one("softhca_completion_errors_total", "Completion queue entries with an error status.",
      c.completion.completion_errors);
  one("softhca_completion_queue_overflows_total", "Completion queues that overflowed.",
      c.completion.cq_overflows);
  one("softhca_events_total", "Completion and asynchronous events.", c.completion.events);
  one("softhca_events_deferred_total", "Events that a process did not take at once.",
      c.completion.events_deferred);
  one("softhca_malformed_commands_total", "Commands that failed validation.",
      c.refused.malformed_commands);
  one("softhca_bad_checksum_commands_total", "Commands with a wrong checksum: torn or overwritten.",
      c.refused.bad_checksums);
  one("softhca_hostile_memory_total", "Invalid values in memory shared with programs.",
      c.refused.hostile_memory);
}

void add_process_memory(Families& out, const engine::Tenant& tenant) {
  const Labels labels{{"tenant", tenant.name}};
  const engine::MemoryCounters& c = tenant.counters.memory;
  out.counter("softhca_process_memory_accesses_total",
              "Accesses to memory of programs that is not shared with the daemon.", labels,
              number(c.process_accesses));
  out.counter(
      "softhca_process_memory_late_accesses_total",
      "Accesses to memory of programs that is not shared with the daemon, and that timed out.",
      labels, number(c.late_accesses));
  out.counter("softhca_process_memory_held_total",
              "Times that the tenant's messages were delayed because memory that its programs do "
              "not share is slow.",
              labels, number(c.held));
  out.counter(
      "softhca_process_memory_held_seconds_total",
      "Time in which the tenant's messages were delayed for slow memory, added when that ends.",
      labels, number(tenant.slow_memory.held_ns) * 1e-9);
}

void add_failures(Families& out, const engine::Tenant& tenant) {
  const auto& failures = tenant.counters.completion.failures;
  for (std::size_t i = static_cast<std::size_t>(engine::QpFailure::kNone) + 1; i < failures.size();
       ++i)
    out.counter(
        "softhca_tenant_queue_pair_failures_total", "Queue pairs that failed, by cause.",
        {{"tenant", tenant.name}, {"cause", engine::name_of(static_cast<engine::QpFailure>(i))}},
        number(failures[i]));
}

void add_congestion(Families& out, const engine::Tenant& tenant) {
  const engine::TenantCounters& c = tenant.counters;
  const Labels labels{{"tenant", tenant.name}};
  const auto count = [&](const char* name, const char* help, std::uint64_t value) {
    out.counter(name, help, labels, static_cast<double>(value));
  };
  count("softhca_np_ecn_marked_roce_packets_received_total",
        "Packets received with a congestion mark (ECN CE).", c.congestion.marked_packets.value());
  count("softhca_np_cnp_packets_sent_total", "Congestion notifications sent.",
        c.congestion.cnps_sent.value());
  const std::uint64_t handled = c.congestion.cnps_handled.value(),
                      ignored = c.congestion.cnps_ignored.value();
  count("softhca_cnp_packets_received_total", "Congestion notifications received.",
        handled + ignored);
  count("softhca_rp_cnp_packets_handled_total",
        "Congestion notifications that slowed a queue pair or datagrams down.", handled);
  count("softhca_rp_cnp_packets_ignored_total", "Congestion notifications without effect.",
        ignored);
  out.gauge("softhca_paced_queue_pairs",
            "Queue pairs slowed down by congestion, as of their last packet.", labels,
            c.congestion.paced_queue_pairs.value());
  out.gauge("softhca_paced_rate_bytes_per_second",
            "Sum of the rates of queue pairs slowed down by congestion.", labels,
            number(c.congestion.paced_rate) / 8);
  out.gauge("softhca_slowed_datagram_paths",
            "Peers to which datagrams are slowed down, as of the last datagram.", labels,
            c.congestion.slowed_paths.value());
  count("softhca_datagram_questions_total",
        "Probes that ask peers how many datagrams have arrived.", c.congestion.questions.value());
}

/// Adds the provisioning of shared receive queues (mechanism D).
void add_receive(Families& out, const engine::Tenant& tenant) {
  const auto& c = tenant.counters.receive;
  const auto one = [&](const char* name, const char* help, const Counter& counter) {
    out.counter(name, help, {{"tenant", tenant.name}}, static_cast<double>(counter.value()));
  };
  one("softhca_srq_soft_limit_exceeded_total", "Times a queue pair exceeded its soft limit.",
      c.soft_exceeded);
  one("softhca_srq_hard_limit_refused_total", "Buffers refused to a queue pair at its hard limit.",
      c.hard_refused);
  one("softhca_srq_limit_raised_buffers_total", "Buffers by which limits grew.", c.raised);
  one("softhca_srq_replenished_buffers_total", "Buffers lent beyond a limit.", c.replenished);
  one("softhca_srq_recouped_buffers_total", "Buffers by which limits of idle queue pairs shrank.",
      c.recouped);
  one("softhca_srq_quarantines_total", "Times a queue pair was put into quarantine.",
      c.quarantines);
  out.gauge("softhca_srq_quarantined", "Queue pairs in quarantine.", {{"tenant", tenant.name}},
            c.quarantined.value());
  one("softhca_srq_runaways_total",
      "Times one queue pair drew most of the buffers of a nearly empty queue.", c.runaways);
  one("softhca_srq_connections_dropped_total",
      "Queue pairs failed because they held too many buffers.", c.connections_dropped);
  out.gauge("softhca_srq_buffers_held", "Buffers held by queue pairs, of queues with limits.",
            {{"tenant", tenant.name}}, c.held.value());
  out.gauge("softhca_srq_buffers_held_high_water", "Most buffers held by queue pairs at once.",
            {{"tenant", tenant.name}}, c.held_high_water.value());
  one("softhca_srq_watermark_total", "Times a queue fell to its low watermark.", c.watermarks);
}

void add_waits(Families& out, const engine::Tenant& tenant) {
  add_waits(out, tenant, nullptr);
  for (const auto& level : tenant.levels) add_waits(out, tenant, level.get());
}

/// Adds the counters of each level. The tenant's counters count the same events.
void add_levels(Families& out, const engine::Tenant& tenant) {
  for (const auto& level : tenant.levels) {
    const Labels labels = labels_of(tenant, level.get());
    const engine::LevelCounters& c = level->counters;
    const char* help = "Commands of the level, by the way they came.";
    out.counter("softhca_level_commands_total", help, with(labels, "way", "vcb"),
                number(c.commands_vcb));
    out.counter("softhca_level_commands_total", help, with(labels, "way", "doorbell"),
                number(c.commands_doorbell));
    out.counter("softhca_level_send_queue_mode_total",
                "VCB commands of the level that became doorbells.", labels,
                number(c.send_queue_mode));
    add_arbitration_wait(out, "softhca_level_arbitration_wait_seconds", labels, c.arbitration_wait);
    out.counter("softhca_level_throttled_seconds_total",
                "Time in which the level's rate limited it, added when that ends.", labels,
                number(level->rate.held_ns) * 1e-9);
    out.counter("softhca_level_minimum_bytes_total",
                "Bytes served before other levels of the tenant because the level was behind its "
                "minimum rate.",
                labels, number(level->rate.minimum_bytes));
    add_peer_rates(out, tenant, level.get());
    out.gauge("softhca_level_assigned_queue_pairs",
              "Queue pairs assigned to the level by service level or traffic class, from programs "
              "of other levels.",
              labels, c.assigned_queue_pairs.value());
    out.gauge("softhca_level_sessions", "Opened device contexts of the level.", labels,
              c.sessions.value());
  }
}

}  // namespace softhca::metrics
