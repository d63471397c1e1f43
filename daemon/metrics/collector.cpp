#include "daemon/metrics/collector.hpp"

#include <array>

#include "daemon/metrics/families.hpp"

namespace softhca::metrics {
namespace {

using transport::Count;

/// Names operators know from node_exporter and mlx5, where they have one.
struct TransportMetric {
  Count count;
  const char* name;
  const char* help;
};
constexpr TransportMetric kTransportMetrics[] = {
    {Count::kRetransmittedPackets, "softhca_retransmitted_packets_total",
     "Request packets sent again."},
    {Count::kAckTimeouts, "softhca_local_ack_timeout_errors_total",
     "Acknowledgement timers that ran out."},
    {Count::kEarlyRetries, "softhca_early_retries_total",
     "Retries that the round-trip time asked for before the timeout."},
    {Count::kDuplicateRequests, "softhca_duplicate_requests_packets_total",
     "Request packets received again."},
    {Count::kOutOfSequence, "softhca_out_of_sequence_packets_received_total",
     "Request packets beyond the expected sequence number."},
    {Count::kImpliedNak, "softhca_implied_nak_seq_errors_total",
     "Read or atomic responses that were skipped."},
    {Count::kAcksSent, "softhca_acks_sent_total", "Acknowledgements sent."},
    {Count::kAcksReceived, "softhca_acks_received_total", "Acknowledgements received."},
    {Count::kReceiveDropped, "softhca_out_of_buffer_drops_total",
     "UC and UD messages without a receive request."},
    {Count::kGhostAck, "softhca_ghost_responses_total", "Responses nothing is waiting for."},
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
    {Count::kBadOpcode, "bad_opcode"},
    {Count::kBadState, "bad_state"},
    {Count::kBadLength, "bad_length"},
    {Count::kBadQkey, "bad_qkey"},
};

void add_transport(Families& out, const engine::Tenant& tenant) {
  const auto value = [&](Count c) {
    return static_cast<double>(tenant.counters.transport[static_cast<std::size_t>(c)].value());
  };
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
                "Packets of a queue pair that its transport refused.",
                {{"tenant", name}, {"reason", m.reason}}, value(m.count));
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
  both("softhca_packets_total", "RoCE packets by port.", c.tx_packets, c.rx_packets);
  both("softhca_payload_bytes_total", "Payload of RoCE packets.", c.tx_bytes, c.rx_bytes);
  one("softhca_local_messages_total", "Messages between queue pairs of this daemon.",
      c.local_messages);
  one("softhca_local_bytes_total", "Payload of messages between queue pairs of this daemon.",
      c.local_bytes);
  one("softhca_engine_work_bytes_total",
      "Work of the engine on queue pairs, in bytes of a local copy that take as long.", c.effort);
  out.histogram("softhca_arbitration_wait_seconds", "From a command's kick to its start.", labels,
                c.arbitration_wait, 256, std::uint64_t{1} << 34, 1e-9);
  out.summary(
      "softhca_command_engine_work_bytes",
      "Work of the engine, for all tenants, from when a command could have been seen to its "
      "successful end, in bytes of a local copy that take as long.",
      labels, c.command_work);
  out.counter("softhca_commands_total", "Commands taken, by the way they came.",
              {{"tenant", tenant.name}, {"way", "vcb"}},
              static_cast<double>(c.commands_vcb.value()));
  out.counter("softhca_commands_total", "Commands taken, by the way they came.",
              {{"tenant", tenant.name}, {"way", "doorbell"}},
              static_cast<double>(c.commands_doorbell.value()));
  out.counter("softhca_throttled_seconds_total", "Time the tenant's rate held it back.", labels,
              static_cast<double>(c.throttled_ns.value()) * 1e-9);
  one("softhca_send_queue_mode_total", "VCB commands that became doorbells.", c.send_queue_mode);
  one("softhca_doorbells_total", "Doorbells rung by processes.", c.doorbells);
  one("softhca_completions_total", "Completion queue entries written.", c.completions);
  one("softhca_completion_errors_total", "Completion queue entries with an error status.",
      c.completion_errors);
  one("softhca_completion_queue_overflows_total", "Completion queues that overflowed.",
      c.cq_overflows);
  one("softhca_events_total", "Completion and asynchronous events.", c.events);
  one("softhca_events_deferred_total", "Events a process did not take at once.", c.events_deferred);
  one("softhca_malformed_commands_total", "Commands that failed validation.", c.malformed_commands);
  one("softhca_bad_checksum_commands_total",
      "Commands whose checksum did not fit: torn or scribbled.", c.bad_checksums);
  one("softhca_hostile_memory_total", "Shared words no correct provider writes.", c.hostile_memory);
}

/// Provisioning of shared receive queues (mechanism D).
void add_receive(Families& out, const engine::Tenant& tenant) {
  const auto& c = tenant.counters.receive;
  const auto one = [&](const char* name, const char* help, const Counter& counter) {
    out.counter(name, help, {{"tenant", tenant.name}}, static_cast<double>(counter.value()));
  };
  one("softhca_srq_soft_limit_exceeded_total", "Times a queue pair went over its soft limit.",
      c.soft_exceeded);
  one("softhca_srq_hard_limit_refused_total", "Buffers refused to a queue pair at its hard limit.",
      c.hard_refused);
  one("softhca_srq_limit_raised_buffers_total", "Buffers by which limits grew.", c.raised);
  one("softhca_srq_replenished_buffers_total", "Buffers given on credit beyond a limit.",
      c.replenished);
  one("softhca_srq_recouped_buffers_total", "Buffers by which limits of idle queue pairs shrank.",
      c.recouped);
  one("softhca_srq_connections_dropped_total", "Queue pairs failed to spare others.",
      c.connections_dropped);
  one("softhca_srq_watermark_total", "Times a queue fell to its low watermark.", c.watermarks);
}

std::uint32_t vcbs_guaranteed(const engine::Tenant& tenant) {
  std::uint32_t sum = tenant.vcbs.guaranteed.value();
  for (const auto& level : tenant.levels) sum += level->vcbs.guaranteed.value();
  return sum;
}

void add_objects(Families& out, const Source& source, const engine::Tenant& tenant) {
  const Labels labels{{"tenant", tenant.name}};
  const collect::CollectGroup& group = source.engine.pcbs().group(tenant.group);
  out.gauge("softhca_queue_pairs", "Queue pairs.", labels, tenant.counters.queue_pairs.value());
  out.gauge("softhca_memory_regions", "Memory regions.", labels,
            tenant.counters.memory_regions.value());
  out.gauge("softhca_registered_bytes", "Bytes of memory regions.", labels,
            static_cast<double>(tenant.counters.registered_bytes.value()));
  out.gauge("softhca_sessions", "Opened device contexts.", labels,
            tenant.counters.sessions.value());
  out.gauge("softhca_vcbs_guaranteed", "VCBs the tenant is guaranteed.", labels,
            vcbs_guaranteed(tenant));
  out.gauge("softhca_vcbs_in_use", "VCBs held by the tenant's processes.", labels,
            tenant.all_vcbs_in_use.value());
  out.gauge("softhca_pcbs_guaranteed", "PCBs the tenant is guaranteed.", labels,
            source.engine.pcbs().guaranteed(tenant.group));
  out.gauge("softhca_pcbs_in_use", "PCBs in use, without dedicated ones.", labels,
            group.all_in_use.value());
  out.gauge("softhca_pcbs_high_water", "Most PCBs in use at once.", labels,
            group.all_high_water.value());
  out.gauge("softhca_dedicated_pcbs_in_use", "Dedicated PCBs in use.", labels,
            group.dedicated_in_use.value());
  out.counter("softhca_pcb_refusals_total", "Commands that found no PCB.", labels,
              static_cast<double>(group.refused.value()));
}

/// Of the tenant, or of one of its levels.
void add_overflow(Families& out, const Source& source, const engine::Tenant& tenant,
                  const engine::Level* level) {
  const schedule::DoorbellCounters& c = source.engine.doorbells(tenant, level);
  const Labels labels{{"tenant", tenant.name}, {"level", level == nullptr ? "" : level->name}};
  const auto count = [&](const char* name, const char* help, const Counter& counter) {
    out.counter(name, help, labels, static_cast<double>(counter.value()));
  };
  count("softhca_doorbells_pruned_total", "Doorbells written to the doorbell overflow buffer.",
        c.pruned);
  count("softhca_doorbells_recovered_total",
        "Doorbells read back, each with those that joined it in the overflow buffer.", c.recovered);
  count("softhca_doorbells_lost_total",
        "Doorbells read back as something else: the program wrote over them.", c.lost);
  out.gauge("softhca_doorbell_overflow_in_use",
            "Queue pairs with a doorbell in the overflow buffer.", labels, c.overflow.value());
  out.gauge("softhca_doorbell_overflow_high_water", "Most such queue pairs at once.", labels,
            c.overflow_high_water.value());
}

/// VCBs and PCBs by level: "level" is its name, or "" for the tenant as a whole, of which the
/// levels are parts. Guaranteed: its own part of the guarantee, for the tenant the sum.
void add_levels(Families& out, const Source& source, const engine::Tenant& tenant) {
  struct Account {
    const std::string name;
    const Quota& vcbs;
    const Counter& vcbs_refused;
    const collect::CollectGroup& group;
  };
  const auto add = [&](const Account& account) {
    const Labels labels{{"tenant", tenant.name}, {"level", account.name}};
    const auto quota = [&](const char* kind, const Quota& q, std::uint64_t refused) {
      Labels with_kind = labels;
      with_kind.emplace_back("resource", kind);
      const auto gauge = [&](const char* name, const char* help, std::uint32_t value) {
        out.gauge(name, help, with_kind, value);
      };
      gauge("softhca_level_guaranteed", "Guaranteed; of \"\": shared among the tenant's levels.",
            q.guaranteed.value());
      gauge("softhca_level_in_use", "In use; of \"\": by levels beyond their own.",
            q.in_use.value());
      gauge("softhca_level_shared_in_use", "Of those in use: beyond the guarantee.",
            q.shared_in_use());
      gauge("softhca_level_high_water", "Most in use at once.", q.high_water.value());
      gauge("softhca_level_lent", "Of the guarantee: idle, and lent to the shared rest.",
            q.lent.value());
      out.counter("softhca_level_recalls_total", "Times what was lent was asked for again.",
                  with_kind, static_cast<double>(q.recalls.value()));
      gauge("softhca_level_draining", "In use, to come back since the guarantee shrank.",
            q.draining.value());
      out.counter("softhca_level_refused_total", "Asked for and not to be had.", with_kind,
                  static_cast<double>(refused));
    };
    quota("vcbs", account.vcbs, account.vcbs_refused.value());
    quota("pcbs", account.group.pcbs, account.group.refused.value());
  };
  const collect::PcbPool& pcbs = source.engine.pcbs();
  add({"", tenant.vcbs, tenant.vcbs_refused, pcbs.group(tenant.group)});
  for (const auto& level : tenant.levels) {
    add({level->name, level->vcbs, level->vcbs_refused, pcbs.group(level->group)});
    const Labels labels{{"tenant", tenant.name}, {"level", level->name}};
    out.counter("softhca_level_send_queue_mode_total", "VCB commands that became doorbells.",
                labels, static_cast<double>(level->counters.send_queue_mode.value()));
    out.gauge("softhca_level_sessions", "Opened device contexts.", labels,
              level->counters.sessions.value());
  }
}

/// What the tenant's programs have taken, and what they were refused.
void add_limits(Families& out, const engine::Tenant& tenant) {
  const resource::Accounts& accounts = tenant.accounts;
  resource::for_each_kind([&](resource::Kind kind) {
    const Labels labels{{"tenant", tenant.name}, {"resource", resource::name_of(kind)}};
    const auto gauge = [&](const char* name, const char* help, std::uint64_t value) {
      out.gauge(name, help, labels, static_cast<double>(value));
    };
    gauge("softhca_tenant_limit", "What the tenant may have at once.", accounts.limit(kind));
    gauge("softhca_tenant_in_use", "What the tenant has.", accounts.in_use(kind));
    gauge("softhca_tenant_high_water", "Most the tenant had at once.", accounts.high_water(kind));
    const auto refused = [&](const char* by, std::uint64_t value) {
      Labels with_cause = labels;
      with_cause.emplace_back("by", by);
      out.counter("softhca_tenant_refused_total",
                  "Requests refused by the tenant's limit, or by the total of the adapter.",
                  with_cause, static_cast<double>(value));
    };
    refused("tenant", accounts.refused(kind));
    refused("adapter", accounts.refused_by_whole(kind));
  });
}

const char* purpose_of(const schedule::Tvl& tvl) {
  return tvl.purpose == schedule::TvlPurpose::kDedicated ? "dedicated" : "commands";
}

const engine::Tenant* find_tenant(const Source& source, TenantId id) {
  for (const auto& tenant : source.tenants)
    if (tenant->id == id) return tenant.get();
  return nullptr;
}

void add_lanes(Families& out, const Source& source) {
  const schedule::TvlTable& tvls = source.engine.tvls();
  for (std::uint16_t i = 0; i < tvls.size(); ++i) {
    const schedule::Tvl& tvl = tvls[TvlId(i)];
    const engine::Tenant* tenant = find_tenant(source, tvl.tenant);
    if (tenant == nullptr) continue;
    const schedule::LaneCounters& lane = source.engine.arbitrator().counters(TvlId(i));
    const Labels labels{
        {"tenant", tenant->name}, {"tvl", std::to_string(i)}, {"purpose", purpose_of(tvl)}};
    const auto credits = [&](const char* kind, const Quota& quota) {
      Labels with_kind = labels;
      with_kind.emplace_back("kind", kind);
      out.gauge("softhca_credits_guaranteed", "Credits the lane is guaranteed.", with_kind,
                quota.guaranteed.value());
      out.gauge("softhca_credits_in_use", "Credits in use.", with_kind, quota.in_use.value());
      out.gauge("softhca_credits_lent", "Of the guarantee: idle, and lent to the shared rest.",
                with_kind, quota.lent.value());
      out.counter("softhca_credits_recalls_total", "Times what was lent was asked for again.",
                  with_kind, static_cast<double>(quota.recalls.value()));
    };
    credits("execution", tvl.execution);
    credits("completion", tvl.completion);
    out.gauge("softhca_kick_list_waiting", "Commands in the virtual kick list.", labels,
              lane.waiting.value());
    out.counter("softhca_commands_started_total", "Commands started by the arbitrator.", labels,
                static_cast<double>(lane.started.value()));
  }
}

void add_port(Families& out, const engine::PortBinding& binding) {
  const Labels labels{{"port", binding.name}};
  const auto count = [&](const char* name, const char* help, std::uint64_t value) {
    out.counter(name, help, labels, static_cast<double>(value));
  };
  const port::PortCounters c = binding.port->counters();
  count("softhca_port_frames_received_total", "Frames received.", c.rx_frames);
  count("softhca_port_frames_transmitted_total", "Frames transmitted.", c.tx_frames);
  count("softhca_port_data_received_bytes_total", "Bytes of frames received.", c.rx_bytes);
  count("softhca_port_data_transmitted_bytes_total", "Bytes of frames transmitted.", c.tx_bytes);
  count("softhca_port_receive_missed_total", "Frames the device lost.", c.rx_missed);
  count("softhca_port_transmit_dropped_total", "Frames the device refused.", c.tx_dropped);
  count("softhca_port_unresolved_total", "Packets to a neighbour that does not answer.",
        binding.drops.unresolved.value());
  count("softhca_port_no_buffer_total", "Sends put off for want of a frame.",
        binding.drops.no_buffer.value());
  const auto drop = [&](const char* reason, const Counter& counter) {
    out.counter("softhca_port_dropped_packets_total", "Received RoCE packets dropped.",
                {{"port", binding.name}, {"reason", reason}}, static_cast<double>(counter.value()));
  };
  std::uint64_t foreign = 0;
  for (std::size_t i = 1; i < binding.drops.parse.size(); ++i) {
    const auto reason = static_cast<wire::DropReason>(i);
    if (wire::is_foreign(reason)) {
      foreign += binding.drops.parse[i].value();
    } else {
      drop(wire::name(reason), binding.drops.parse[i]);
    }
  }
  count("softhca_port_foreign_frames_total", "Frames that are no RoCE packets.", foreign);
  for (std::size_t i = 0; i < binding.drops.frame.size(); ++i)
    drop(engine::name_of(static_cast<engine::FrameDrop>(i)), binding.drops.frame[i]);
}

}  // namespace

std::vector<prometheus::MetricFamily> Collector::Collect() const {
  Families out;
  const std::lock_guard lock(source_.tenants_changing);
  for (const auto& tenant : source_.tenants) {
    add_work(out, *tenant);
    add_transport(out, *tenant);
    add_receive(out, *tenant);
    add_objects(out, source_, *tenant);
    add_levels(out, source_, *tenant);
    add_overflow(out, source_, *tenant, nullptr);
    for (const auto& level : tenant->levels) add_overflow(out, source_, *tenant, level.get());
    add_limits(out, *tenant);
  }
  add_lanes(out, source_);
  for (const auto& binding : source_.engine.ports()) add_port(out, *binding);
  const QuotaPool& pcbs = source_.engine.pcbs().quota();
  out.gauge("softhca_pcbs_shared", "PCBs guaranteed to no tenant.", {}, pcbs.unallocated());
  out.gauge("softhca_pcbs_shared_in_use", "Shared PCBs in use.", {}, pcbs.shared_in_use());
  out.counter("softhca_engine_polls_total", "Poll steps of the engine.", {},
              static_cast<double>(source_.worker.polls().value()));
  out.counter("softhca_engine_sleeps_total", "Times the engine slept.", {},
              static_cast<double>(source_.worker.sleeps().value()));
  out.counter("softhca_engine_busy_seconds_total",
              "Time of the engine in poll steps that had something to do.", {},
              static_cast<double>(source_.worker.busy().value()) * 1e-9);
  return out.take();
}

}  // namespace softhca::metrics
