// SPDX-License-Identifier: Apache-2.0

// The counters of a tenant and of its levels, and those that have the same structure.
#pragma once

#include <utility>

#include "daemon/counters/counter_table.hpp"
#include "daemon/engine/records/costs.hpp"
#include "daemon/engine/records/tenant.hpp"
#include "daemon/roce/rdma_cm/rdma_cm_environment.hpp"

namespace softhca::counters {

using engine::CollectCounters;
using engine::CompletionCounters;
using engine::CongestionCounters;
using engine::LevelCounters;
using engine::MemoryCounters;
using engine::PeerGate;
using engine::RateGate;
using engine::RefusalCounters;
using engine::Tenant;
using engine::TenantControl;
using engine::TenantCounters;
using engine::WaitCounters;
using engine::WireCounters;
using management::ConnectionCounters;
using receive::ProvisioningCounters;
using transport::Count;

inline constexpr Row<TenantCounters> kWork[] = {
    {"softhca_commands_total", "Commands by the way they came.", at<&TenantCounters::commands_vcb>,
     label("way", "vcb", json("commands_vcb"))},
    {"softhca_commands_total", kSame, at<&TenantCounters::commands_doorbell>,
     label("way", "doorbell", json("commands_doorbell"))},
    {"softhca_vcb_commands_total", "Commands handed over in VCBs, by kind of kick.",
     each<engine::Kick, &TenantCounters::collect, &CollectCounters::kicks>, label("kick")},
    {"softhca_vcb_commands_in_pieces_total",
     "Commands handed over in VCBs and collected in several parts.",
     at<&TenantCounters::collect, &CollectCounters::in_pieces>},
    {"softhca_vcb_commands_withdrawn_total", "Commands that programs began in VCBs and withdrew.",
     at<&TenantCounters::collect, &CollectCounters::withdrawn>},
    {"softhca_send_queue_mode_total", "VCB commands that became doorbells, by cause.",
     each<engine::SendQueueCause, &TenantCounters::send_queue_cause>, label("cause")},
    {nullptr, "", at<&TenantCounters::send_queue_mode>, json("send_queue_mode")},
    {"softhca_commands_given_back_total",
     "Started commands returned to their send queue because they could not be sent.",
     at<&TenantCounters::commands_given_back>, json("commands_given_back")},
    {"softhca_stalled_queue_pairs",
     "Queue pairs that wait for their peer to post a receive or to reply.",
     at<&TenantCounters::stalled_queue_pairs>, json("stalled_queue_pairs")},
    {"softhca_set_aside_queue_pairs",
     "Queue pairs suspended until their next command may start. It waits for earlier commands, "
     "credits of the peer, congestion control, or the link address of the next hop.",
     at<&TenantCounters::set_aside_queue_pairs>, json("set_aside_queue_pairs")},
    {"softhca_doorbells_total",
     "Doorbells rung by processes, by cause.",
     {[](const TenantCounters& c, std::size_t cause) { return c.doorbells[cause].value(); }, 0,
      std::tuple_size_v<decltype(TenantCounters::doorbells)>,
      [](std::size_t cause) { return engine::name_of(static_cast<engine::DoorbellCause>(cause)); }},
     label("cause", nullptr, json("doorbells"))},
    {"softhca_local_messages_total", "Messages between queue pairs of this daemon.",
     at<&TenantCounters::local_messages>, json("local_messages", file("local_messages"))},
    {"softhca_local_bytes_total", "Payload of messages between queue pairs of this daemon.",
     at<&TenantCounters::local_bytes>, json("local_bytes", file("local_bytes"))},
    {"softhca_engine_seconds_total", "Engine time for the tenant.",
     at<&TenantCounters::engine_time>, unit(1 / engine::kUnitsPerSecond)},
    {"softhca_queue_pairs", "Queue pairs.", at<&TenantCounters::queue_pairs>, json("queue_pairs")},
    {"softhca_memory_regions", "Memory regions.", at<&TenantCounters::memory_regions>},
    {"softhca_sessions", "Opened device contexts.", at<&TenantCounters::sessions>,
     json("sessions")},
};

inline constexpr Row<WireCounters> kWire[] = {
    {"softhca_packets_total", "RoCE packets by port.", at<&WireCounters::tx_packets>,
     label("direction", "transmit", json("tx_packets"))},
    {"softhca_packets_total", kSame, at<&WireCounters::rx_packets>,
     label("direction", "receive", json("rx_packets"))},
    {"softhca_payload_bytes_total", "Payload of RoCE packets.", at<&WireCounters::tx_bytes>,
     label("direction", "transmit", json("tx_bytes"))},
    {"softhca_payload_bytes_total", kSame, at<&WireCounters::rx_bytes>,
     label("direction", "receive", json("rx_bytes"))},
};

inline constexpr auto kFirstFailure =
    static_cast<engine::QpFailure>(static_cast<int>(engine::QpFailure::kNone) + 1);
inline constexpr Row<CompletionCounters> kCompletion[] = {
    {"softhca_completions_total", "Completion queue entries written.",
     at<&CompletionCounters::completions>, json("completions")},
    {"softhca_completion_errors_total", "Completion queue entries with an error status.",
     at<&CompletionCounters::completion_errors>, json("completion_errors")},
    {"softhca_completion_queue_overflows_total", "Completion queues that overflowed.",
     at<&CompletionCounters::cq_overflows>},
    {"softhca_events_total", "Completion and asynchronous events.",
     at<&CompletionCounters::events>},
    {"softhca_events_deferred_total", "Events that a process did not take at once.",
     at<&CompletionCounters::events_deferred>},
    {"softhca_tenant_queue_pair_failures_total", "Queue pairs that failed, by cause.",
     each_from<kFirstFailure, &CompletionCounters::failures>, label("cause")},
};

inline constexpr Row<RefusalCounters> kRefusals[] = {
    {"softhca_malformed_commands_total", "Commands that failed validation.",
     at<&RefusalCounters::malformed_commands>},
    {"softhca_bad_checksum_commands_total", "Commands with a wrong checksum: torn or overwritten.",
     at<&RefusalCounters::bad_checksums>},
    {"softhca_hostile_memory_total", "Invalid values in memory shared with programs.",
     at<&RefusalCounters::hostile_memory>, json("hostile_memory")},
};

inline constexpr Row<MemoryCounters> kMemory[] = {
    {"softhca_registered_bytes", "Bytes of memory regions.", at<&MemoryCounters::registered_bytes>},
    {"softhca_process_memory_accesses_total",
     "Accesses to memory of programs that is not shared with the daemon.",
     at<&MemoryCounters::process_accesses>},
    {"softhca_process_memory_late_accesses_total",
     "Accesses to memory of programs that is not shared with the daemon, and that timed out.",
     at<&MemoryCounters::late_accesses>},
    {"softhca_process_memory_held_total",
     "Times that the tenant's messages were delayed because memory that its programs do not share "
     "is slow.",
     at<&MemoryCounters::held>},
};

inline constexpr Row<CongestionCounters> kCongestion[] = {
    {"softhca_np_ecn_marked_roce_packets_received_total",
     "Packets received with a congestion mark (ECN CE).", at<&CongestionCounters::marked_packets>,
     file("np_ecn_marked_roce_packets")},
    {"softhca_np_cnp_packets_sent_total", "Congestion notifications sent.",
     at<&CongestionCounters::cnps_sent>, file("np_cnp_sent")},
    {"softhca_cnp_packets_received_total",
     "Congestion notifications received.",
     {[](const CongestionCounters& c, std::size_t) {
       return c.cnps_handled.value() + c.cnps_ignored.value();
     }}},
    {"softhca_rp_cnp_packets_handled_total",
     "Congestion notifications that slowed a queue pair or datagrams down.",
     at<&CongestionCounters::cnps_handled>, file("rp_cnp_handled")},
    {"softhca_rp_cnp_packets_ignored_total", "Congestion notifications without effect.",
     at<&CongestionCounters::cnps_ignored>, file("rp_cnp_ignored")},
    {"softhca_paced_queue_pairs", "Queue pairs slowed down by congestion, as of their last packet.",
     at<&CongestionCounters::paced_queue_pairs>},
    {"softhca_paced_rate_bytes_per_second",
     "Sum of the rates of queue pairs slowed down by congestion.",
     at<&CongestionCounters::paced_rate>, unit(1.0 / 8)},
    {"softhca_slowed_datagram_paths",
     "Peers to which datagrams are slowed down, as of the last datagram.",
     at<&CongestionCounters::slowed_paths>},
    {"softhca_datagram_questions_total", "Probes that ask peers how many datagrams have arrived.",
     at<&CongestionCounters::questions>},
};

/// One counter of the transport.
template <transport::Count what>
inline constexpr Values<TenantCounters> transported = element_of<what, &TenantCounters::transport>;

// A metric has the name of node_exporter or mlx5 if one of these has such a metric; a file, that of
// the mlx5 driver.
inline constexpr Row<TenantCounters> kTransport[] = {
    {"softhca_retransmitted_packets_total", "Request packets retransmitted.",
     transported<Count::kRetransmittedPackets>, json("retransmitted_packets")},
    {"softhca_local_ack_timeout_errors_total", "Acknowledgement timers that ran out.",
     transported<Count::kAckTimeouts>, file("local_ack_timeout_err")},
    {"softhca_early_retries_total", "Retries before the timeout, started by the round-trip time.",
     transported<Count::kEarlyRetries>},
    {"softhca_probes_total", "Probes to peers that were silent for two round trips.",
     transported<Count::kProbes>},
    {"softhca_duplicate_requests_packets_total", "Request packets received again.",
     transported<Count::kDuplicateRequests>, file("duplicate_request")},
    {"softhca_out_of_sequence_packets_received_total",
     "Request packets beyond the expected sequence number.", transported<Count::kOutOfSequence>,
     file("out_of_sequence")},
    {"softhca_implied_nak_seq_errors_total", "Read or atomic responses that were skipped.",
     transported<Count::kImpliedNak>, file("implied_nak_seq_err")},
    {"softhca_rx_write_requests_total", "Writes received from peers.",
     transported<Count::kWriteRequests>, file("rx_write_requests")},
    {"softhca_rx_read_requests_total", "Reads received from peers.",
     transported<Count::kReadRequests>, file("rx_read_requests")},
    {"softhca_rx_atomic_requests_total", "Atomics received from peers.",
     transported<Count::kAtomicRequests>, file("rx_atomic_requests")},
    {"softhca_acks_sent_total", "Acknowledgements sent.", transported<Count::kAcksSent>},
    {"softhca_acks_received_total", "Acknowledgements received.",
     transported<Count::kAcksReceived>},
    {"softhca_out_of_buffer_drops_total", "UC and UD messages without a receive request.",
     transported<Count::kReceiveDropped>},
    {nullptr,
     "",
     {[](const TenantCounters& c, std::size_t) {
       return c.value(Count::kReceiveDropped) + c.value(Count::kRnrNakSent);
     }},
     file("out_of_buffer")},
    {"softhca_spared_packets_total",
     "Request packets after a lost one that were not retransmitted because the peer had buffered "
     "them.",
     transported<Count::kSparedPackets>},
    {"softhca_ghost_responses_total", "Responses that match no request.",
     transported<Count::kGhostAck>},
    {"softhca_rate_naks_sent_total", "RNR NAKs sent to requests beyond an inbound rate.",
     transported<Count::kRateNakSent>},
    {"softhca_naks_sent_total", "Negative acknowledgements sent.", transported<Count::kRnrNakSent>,
     label("kind", "receiver_not_ready")},
    {"softhca_naks_sent_total", kSame, transported<Count::kSequenceNakSent>,
     label("kind", "sequence")},
    {"softhca_naks_sent_total", kSame, transported<Count::kInvalidNakSent>,
     label("kind", "invalid_request")},
    {"softhca_naks_sent_total", kSame, transported<Count::kAccessNakSent>,
     label("kind", "remote_access", file("resp_remote_access_errors"))},
    {"softhca_naks_sent_total", kSame, transported<Count::kOperationNakSent>,
     label("kind", "remote_operation")},
    {"softhca_naks_received_total", "Negative acknowledgements received.",
     transported<Count::kRnrNakReceived>,
     label("kind", "receiver_not_ready", file("rnr_nak_retry_err"))},
    {"softhca_naks_received_total", kSame, transported<Count::kSequenceNakReceived>,
     label("kind", "sequence", file("packet_seq_err"))},
    {"softhca_naks_received_total", kSame, transported<Count::kInvalidNakReceived>,
     label("kind", "invalid_request", file("req_remote_invalid_request"))},
    {"softhca_naks_received_total", kSame, transported<Count::kAccessNakReceived>,
     label("kind", "remote_access", file("req_remote_access_errors"))},
    {"softhca_naks_received_total", kSame, transported<Count::kOperationNakReceived>,
     label("kind", "remote_operation")},
    {"softhca_tenant_dropped_packets_total",
     "Packets that the transport of their queue pair refused.", transported<Count::kBadOpcode>,
     label("reason", "bad_opcode")},
    {"softhca_tenant_dropped_packets_total", kSame, transported<Count::kBadState>,
     label("reason", "bad_state")},
    {"softhca_tenant_dropped_packets_total", kSame, transported<Count::kBadLength>,
     label("reason", "bad_length")},
    {"softhca_tenant_dropped_packets_total", kSame, transported<Count::kBadQkey>,
     label("reason", "bad_qkey")},
    {"softhca_tenant_dropped_packets_total", kSame, transported<Count::kRateDropped>,
     label("reason", "rate")},
    {"softhca_tenant_dropped_packets_total", kSame, transported<Count::kBadAccess>,
     label("reason", "access")},
};

/// The provisioning of shared receive queues (mechanism D).
inline constexpr Row<ProvisioningCounters> kProvisioning[] = {
    {"softhca_srq_soft_limit_exceeded_total", "Times a queue pair exceeded its soft limit.",
     at<&ProvisioningCounters::soft_exceeded>},
    {"softhca_srq_hard_limit_refused_total", "Buffers refused to a queue pair at its hard limit.",
     at<&ProvisioningCounters::hard_refused>},
    {"softhca_srq_limit_raised_buffers_total", "Buffers by which limits grew.",
     at<&ProvisioningCounters::raised>},
    {"softhca_srq_replenished_buffers_total", "Buffers lent beyond a limit.",
     at<&ProvisioningCounters::replenished>},
    {"softhca_srq_recouped_buffers_total", "Buffers by which limits of idle queue pairs shrank.",
     at<&ProvisioningCounters::recouped>},
    {"softhca_srq_quarantines_total", "Times a queue pair was put into quarantine.",
     at<&ProvisioningCounters::quarantines>},
    {"softhca_srq_quarantined", "Queue pairs in quarantine.",
     at<&ProvisioningCounters::quarantined>},
    {"softhca_srq_runaways_total",
     "Times one queue pair drew most of the buffers of a nearly empty queue.",
     at<&ProvisioningCounters::runaways>},
    {"softhca_srq_connections_dropped_total",
     "Queue pairs failed because they held too many buffers.",
     at<&ProvisioningCounters::connections_dropped>},
    {"softhca_srq_buffers_held", "Buffers held by queue pairs, of queues with limits.",
     at<&ProvisioningCounters::held>},
    {"softhca_srq_buffers_held_high_water", "Most buffers held by queue pairs at once.",
     at<&ProvisioningCounters::held_high_water>},
    {"softhca_srq_watermark_total", "Times a queue fell to its low watermark.",
     at<&ProvisioningCounters::watermarks>},
};

/// What a tenant has beside its counters.
inline constexpr Row<Tenant> kTenant[] = {
    {"softhca_throttled", "1 while the tenant's rate limits it.",
     at<&Tenant::rate, &RateGate::held>},
    {"softhca_throttled_seconds_total",
     "Time in which the tenant's rate limited it, added when that ends.",
     at<&Tenant::rate, &RateGate::held_ns>, unit(kNanoseconds)},
    {"softhca_minimum_bytes_total",
     "Bytes served first because the tenant was behind its minimum rate.",
     at<&Tenant::rate, &RateGate::minimum_bytes>},
    {"softhca_process_memory_held_seconds_total",
     "Time in which the tenant's messages were delayed for slow memory, added when that ends.",
     at<&Tenant::slow_memory, &RateGate::held_ns>, unit(kNanoseconds)},
    {"softhca_kept_packets", "Request packets of peers in the out-of-order buffer.",
     at<&Tenant::kept, &transport::KeptAccount::held>},
    {"softhca_kept_packets_total",
     "Request packets of peers that were buffered until an earlier one came.",
     at<&Tenant::kept, &transport::KeptAccount::kept>},
    {"softhca_kept_packets_given_up_total",
     "Buffered packets dropped because the tenant, or all tenants, buffered too many.",
     at<&Tenant::kept, &transport::KeptAccount::given_up>},
    {"softhca_vcbs_in_use", "VCBs held by the tenant's processes.",
     at<&Tenant::control, &TenantControl::all_vcbs_in_use>},
    {"softhca_vcbs_high_water", "Most VCBs held at once.",
     at<&Tenant::control, &TenantControl::all_vcbs_high_water>},
    {"softhca_vcbs_added_total", "VCBs given to programs while they ran.",
     at<&Tenant::control, &TenantControl::vcbs_added>},
    {"softhca_vcbs_taken_back_total", "VCBs taken back from programs while they ran.",
     at<&Tenant::control, &TenantControl::vcbs_taken_back>},
    {"softhca_vcbs_guaranteed",
     "VCBs guaranteed to the tenant and its levels.",
     {[](const Tenant& tenant, std::size_t) {
       std::uint64_t sum = tenant.control.vcbs.guaranteed.value();
       for (const auto& level : tenant.levels) sum += level->control.vcbs.guaranteed.value();
       return sum;
     }}},
};

/// What a tenant that is a virtual machine has beside its limits.
inline constexpr Row<TenantControl> kMachine[] = {
    {"softhca_machine_state", "The tenant's virtual machine: 0 off or none, 1 starts, 2 runs.",
     at<&TenantControl::machine_state>},
    {"softhca_tenant_limit", kSame, at<&TenantControl::region_queues>,
     label("resource", "region_queues")},
    {"softhca_tenant_in_use",
     kSame,
     {[](const TenantControl& of, std::size_t) { return of.region_queues_in_use->load(); }},
     label("resource", "region_queues")},
};

/// What peers send to a tenant and read from it. Label "direction" says which.
inline constexpr Row<PeerGate> kTenantPeers[] = {
    {"softhca_peers_throttled", "1 while peers have used up a rate of what they may send or read.",
     at_in<PeerGate, &RateGate::held>},
    {"softhca_peers_throttled_seconds_total",
     "Time in which peers had used up a rate of what they may send or read, added when that ends.",
     at_in<PeerGate, &RateGate::held_ns>, unit(kNanoseconds)},
    {"softhca_peers_rated_bytes_total", "Bytes that peers sent or read while a rate limited them.",
     at<&PeerGate::bytes>},
};

/// The tenant's counters count the same events.
inline constexpr Row<LevelCounters> kLevelWork[] = {
    {"softhca_level_commands_total", "Commands of the level, by the way they came.",
     at<&LevelCounters::commands_vcb>, label("way", "vcb", json("commands_vcb"))},
    {"softhca_level_commands_total", kSame, at<&LevelCounters::commands_doorbell>,
     label("way", "doorbell", json("commands_doorbell"))},
    {"softhca_level_send_queue_mode_total", "VCB commands of the level that became doorbells.",
     at<&LevelCounters::send_queue_mode>, json("send_queue_mode")},
    {"softhca_level_assigned_queue_pairs",
     "Queue pairs assigned to the level by service level or traffic class, from programs of other "
     "levels.",
     at<&LevelCounters::assigned_queue_pairs>, json("assigned_queue_pairs")},
    {"softhca_level_sessions", "Opened device contexts of the level.", at<&LevelCounters::sessions>,
     json("sessions")},
};
inline constexpr Row<RateGate> kLevelRate[] = {
    {"softhca_level_throttled_seconds_total",
     "Time in which the level's rate limited it, added when that ends.", at<&RateGate::held_ns>,
     unit(kNanoseconds)},
    {"softhca_level_minimum_bytes_total",
     "Bytes served before other levels of the tenant because the level was behind its minimum "
     "rate.",
     at<&RateGate::minimum_bytes>},
};
inline constexpr Row<PeerGate> kLevelPeers[] = {
    {"softhca_level_peers_throttled",
     "1 while peers have used up a rate of what they may send or read.",
     at_in<PeerGate, &RateGate::held>},
    {"softhca_level_peers_throttled_seconds_total",
     "Time in which peers had used up a rate of what they may send or read, added when that ends.",
     at_in<PeerGate, &RateGate::held_ns>, unit(kNanoseconds)},
    {"softhca_level_peers_rated_bytes_total",
     "Bytes that peers sent or read while a rate limited them.", at<&PeerGate::bytes>},
};

/// The waits of a level, or of a tenant's commands without a level.
inline constexpr Row<WaitCounters> kWaits[] = {
    {"softhca_command_wait_seconds_total",
     "Time that send commands have waited, by cause, summed over all commands.",
     each<engine::WaitCause, &WaitCounters::time>, label("cause", nullptr, unit(kNanoseconds))},
    {"softhca_guarantee_not_kept_seconds_total",
     "Time in which commands waited for a guaranteed resource.",
     each<engine::Guarantee, &WaitCounters::not_kept>,
     label("resource", nullptr, unit(kNanoseconds))},
};

/// Returns the label value of a code of REJ. Null: the code counts among "other".
inline const char* reject_reason(std::size_t code) {
  using enum wire::CmRejectReason;
  static constexpr std::pair<wire::CmRejectReason, const char*> kNames[] = {
      {kNoQueuePair, "no_queue_pair"},
      {kNoResources, "no_resources"},
      {kTimeout, "timeout"},
      {kUnsupported, "unsupported"},
      {kInvalidCommId, "invalid_comm_id"},
      {kInvalidServiceId, "invalid_service_id"},
      {kInvalidTransportType, "invalid_transport_type"},
      {kStaleConnection, "stale_connection"},
      {kConsumer, "consumer"},
      {kDuplicateLocalCommId, "duplicate_local_comm_id"},
  };
  for (const auto& [named, name] : kNames)
    if (static_cast<std::size_t>(named) == code) return name;
  return nullptr;
}
template <auto rejects>
inline constexpr Values<ConnectionCounters> rejects_by_reason{
    [](const ConnectionCounters& c, std::size_t code) { return (c.*rejects)[code].value(); }, 0,
    ConnectionCounters::kRejectReasons, reject_reason};
template <auto rejects>
inline constexpr Values<ConnectionCounters> other_rejects{
    [](const ConnectionCounters& c, std::size_t) {
      std::uint64_t sum = 0;
      for (std::size_t code = 0; code < ConnectionCounters::kRejectReasons; ++code)
        if (reject_reason(code) == nullptr) sum += (c.*rejects)[code].value();
      return sum;
    }};

/// Connections by rdma_cm.
inline constexpr Row<ConnectionCounters> kConnections[] = {
    {"softhca_connections_established_total", "Connections established by rdma_cm.",
     at<&ConnectionCounters::established_active>, label("role", "active")},
    {"softhca_connections_established_total", kSame, at<&ConnectionCounters::established_passive>,
     label("role", "passive")},
    {"softhca_connection_rejects_sent_total", "Refusals (REJ) sent.",
     rejects_by_reason<&ConnectionCounters::rejects_sent>, label("reason")},
    {"softhca_connection_rejects_sent_total", kSame,
     other_rejects<&ConnectionCounters::rejects_sent>, label("reason", "other")},
    {"softhca_connection_rejects_received_total", "Refusals (REJ) received.",
     rejects_by_reason<&ConnectionCounters::rejects_received>, label("reason")},
    {"softhca_connection_rejects_received_total", kSame,
     other_rejects<&ConnectionCounters::rejects_received>, label("reason", "other")},
    {"softhca_connection_refusals_total",
     "Connections, listeners and identifiers refused to the tenant.",
     each<management::rdma_cm::Refusal, &ConnectionCounters::refused>, label("limit")},
    {"softhca_connections_unreachable_total", "Connection attempts of programs that got no reply.",
     at<&ConnectionCounters::unreachable>},
    {"softhca_connection_messages_received_total", "Messages of connection management received.",
     at<&ConnectionCounters::mads_received>},
    {"softhca_connection_messages_sent_total", "Messages of connection management sent.",
     at<&ConnectionCounters::mads_sent>},
    {"softhca_connection_retries_total", "Messages sent again because no reply came.",
     at<&ConnectionCounters::retries>},
    {"softhca_connection_duplicates_total", "Messages received again.",
     at<&ConnectionCounters::duplicates>},
    {"softhca_connection_malformed_total", "Messages received that were malformed.",
     at<&ConnectionCounters::malformed>},
    {"softhca_connection_stale_total", "Requests from a queue pair that was already connected.",
     at<&ConnectionCounters::stale>},
    {"softhca_connections", "Connections, including those being set up and those in TIME-WAIT.",
     at<&ConnectionCounters::connections>},
    {"softhca_connections_half_open",
     "Connections that peers requested and that are not established yet.",
     at<&ConnectionCounters::half_open>},
    {"softhca_connection_listeners", "Listening identifiers of rdma_cm.",
     at<&ConnectionCounters::listeners>},
    {"softhca_connection_identifiers", "Identifiers of rdma_cm.",
     at<&ConnectionCounters::identifiers>},
    {"softhca_connection_event_channels", "Event channels of rdma_cm.",
     at<&ConnectionCounters::event_channels>},
};

template <class F>
void for_each_direction(const engine::PeerGates& gates, F&& f) {
  f(gates.inbound, Label{"direction", "inbound"});
  f(gates.served, Label{"direction", "served"});
}

/// Calls f(table, structure, label) for each table of a tenant. The label, if it has a name, is
/// that of all rows, besides the tenant's.
template <class F>
void for_each_table(const Tenant& tenant, F&& f) {
  const TenantCounters& c = tenant.counters;
  f(kWork, c, Label{});
  f(kWire, c.wire, Label{});
  f(kTransport, c, Label{});
  f(kCompletion, c.completion, Label{});
  f(kRefusals, c.refused, Label{});
  f(kMemory, c.memory, Label{});
  f(kCongestion, c.congestion, Label{});
  f(kProvisioning, c.receive, Label{});
  f(kConnections, tenant.control.connections, Label{});
  f(kTenant, tenant, Label{});
  for_each_direction(tenant.peer_rates,
                     [&](const PeerGate& gate, Label label) { f(kTenantPeers, gate, label); });
}

/// Does the same for a level.
template <class F>
void for_each_table(const engine::Level& level, F&& f) {
  f(kLevelWork, level.counters, Label{});
  f(kLevelRate, level.rate, Label{});
  for_each_direction(level.peer_rates,
                     [&](const PeerGate& gate, Label label) { f(kLevelPeers, gate, label); });
}

}  // namespace softhca::counters
