// SPDX-License-Identifier: Apache-2.0

// The counters of the daemon as a whole: reloads, the engine, faults, general services.
#pragma once

#include "daemon/configuration/resource_manager/reload_counters.hpp"
#include "daemon/counters/counter_table.hpp"
#include "daemon/engine/datagrams/shared_qp.hpp"
#include "daemon/engine/diagnostics/faults.hpp"
#include "daemon/engine/worker.hpp"
#include "daemon/keeper/handover.hpp"
#include "daemon/qos/gsa/gsa_client.hpp"

namespace softhca::counters {

using configuration::ReloadCounters;
using engine::Faults;
using engine::SharedQpCounters;
using engine::Worker;
using management::gsa::ClientCounters;
using management::gsa::Discard;
using management::gsa::PoolCounters;

inline constexpr Row<ReloadCounters> kReloads[] = {
    {"softhca_reloads_total", "Reloads of the configuration, by result.",
     each<configuration::ReloadOutcome, &ReloadCounters::by_result>, label("result")},
    {"softhca_config_last_reload_successful",
     "1 if the last reload succeeded, or there was none; 0 if it was refused.",
     at<&ReloadCounters::last_successful>},
    {"softhca_config_last_reload_success_timestamp_seconds",
     "Time of the last successful reload, or of the start, since 1970.",
     at<&ReloadCounters::last_success_ms>, unit(1e-3)},
};

inline constexpr Row<keeper::Restarts> kRestarts[] = {
    {"softhca_restarts_total",
     "Times that another adapter took over, by kind.",
     {[](const keeper::Restarts& restarts, std::size_t cause) { return restarts.of[cause].load(); },
      1, keeper::kCauses, name_at<keeper::Cause>},
     label("kind")},
};

inline constexpr Row<Worker> kEngine[] = {
    {"softhca_engine_polls_total", "Poll steps of the engine.", at<&Worker::polls>, json("polls")},
    {"softhca_engine_sleeps_total", "Times the engine slept.", at<&Worker::sleeps>, json("sleeps")},
    {"softhca_engine_busy_seconds_total", "Engine time in poll steps that had work.",
     at<&Worker::busy>, unit(kNanoseconds, json("busy_s"))},
    {"softhca_engine_yield_seconds_total",
     "Engine time lost in yields to programs that kept the processor for over 1 ms.",
     at<&Worker::lost>, unit(kNanoseconds, json("yield_s"))},
};

inline constexpr Row<Faults> kFaults[] = {
    {"softhca_faults_injected_total",
     "Packets and messages that injected faults have affected.",
     {[](const Faults& faults, std::size_t kind) {
        return faults.injected(static_cast<engine::FaultKind>(kind)).value();
      },
      0, engine::kFaultKinds, name_at<engine::FaultKind>},
     label("kind")},
    {"softhca_faults_active", "Injected faults in force.", at<&Faults::active>},
    {"softhca_fault_packets_held", "Packets that injected faults delay.", at<&Faults::held>},
    {"softhca_fault_no_room_total",
     "Packets that a fault had no room to delay or duplicate, and delayed packets that the port "
     "had no room for.",
     at<&Faults::no_room>},
};

/// The figures of queue pair 1 (general services) or 2 (between programs).
inline constexpr Row<SharedQpCounters> kSharedQp[] = {
    {"softhca_gsa_sent_total", "Datagrams sent.", at<&SharedQpCounters::sent>, json("sent")},
    {"softhca_gsa_received_total", "Datagrams given to clients.", at<&SharedQpCounters::received>,
     json("received")},
    {"softhca_gsa_send_refused_total", "Datagrams refused because their client sent too many.",
     at<&SharedQpCounters::send_refused>},
    {"softhca_gsa_unresolved_total", "Datagrams to neighbours that did not answer.",
     at<&SharedQpCounters::unresolved>, json("unresolved")},
    {"softhca_gsa_over_share_total",
     "Datagrams discarded because the queue pair had used up its share of the engine.",
     at<&SharedQpCounters::over_share>, json("over_share")},
    {"softhca_gsa_bad_length_total",
     "Datagrams discarded because they were too long, or too short to name a client.",
     at<&SharedQpCounters::bad_length>, json("bad_length")},
};
inline constexpr Row<PoolCounters> kReceivePool[] = {
    {"softhca_gsa_buffers_posted", "Buffers that wait for datagrams.", at<&PoolCounters::posted>,
     json("posted")},
    {"softhca_gsa_buffers_in_use", "Buffers that clients hold.", at<&PoolCounters::in_use>,
     json("in_use")},
    {"softhca_gsa_buffers_added", "Buffers posted in addition to the clients' shares.",
     at<&PoolCounters::added>, json("added")},
    {"softhca_gsa_discarded_without_client_total", "Datagrams for which no client is registered.",
     element_of<Discard::kNoClient, &PoolCounters::discarded>},
};
/// Returns null for what no client counts.
inline const char* client_discard(std::size_t cause) {
  return static_cast<Discard>(cause) == Discard::kNoClient ? nullptr : name_at<Discard>(cause);
}
/// The sums over clients with the same labels, or those of one client.
inline constexpr Row<ClientCounters> kClients[] = {
    {"softhca_gsa_client_quota", "Buffers posted for the clients.", at<&ClientCounters::share>,
     json("quota")},
    {"softhca_gsa_client_asked", "Buffers the clients asked for.", at<&ClientCounters::asked>,
     json("asked")},
    {"softhca_gsa_client_in_use", "Buffers the clients hold.", at<&ClientCounters::held>,
     json("in_use")},
    {"softhca_gsa_client_received_total", "Datagrams given to the clients.",
     at<&ClientCounters::received>, json("received")},
    {"softhca_gsa_client_raised_total", "Times a client's quota was raised.",
     at<&ClientCounters::raised>, json("raised")},
    {"softhca_gsa_client_discarded_total",
     "Datagrams for the clients that were discarded.",
     {[](const ClientCounters& c, std::size_t cause) { return c.discarded[cause].value(); }, 1,
      management::gsa::kDiscards, client_discard},
     label("cause")},
    {nullptr, "", at<&ClientCounters::held_high_water>, json("in_use_high_water")},
    {nullptr, "", at<&ClientCounters::lowered>, json("lowered")},
};

}  // namespace softhca::counters
