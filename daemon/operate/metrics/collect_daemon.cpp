// SPDX-License-Identifier: Apache-2.0

// Metrics of the daemon as a whole: build, start time, configuration, engine.
#include "daemon/engine/watch/faults.hpp"
#include "daemon/operate/metrics/collect.hpp"

namespace softhca::metrics {
namespace {

void add_reloads(Families& out, const configuration::ReloadCounters& reloads) {
  for (std::size_t i = 0; i < reloads.by_result.size(); ++i)
    out.counter("softhca_reloads_total", "Reloads of the configuration, by result.",
                {{"result", configuration::name_of(static_cast<configuration::ReloadOutcome>(i))}},
                number(reloads.by_result[i]));
  out.gauge("softhca_config_last_reload_successful",
            "1 if the last reload succeeded, or there was none; 0 if it was refused.", {},
            reloads.last_successful.value());
  out.gauge("softhca_config_last_reload_success_timestamp_seconds",
            "Time of the last successful reload, or of the start, since 1970.", {},
            number(reloads.last_success_ms) * 1e-3);
}

void add_engine(Families& out, const engine::Worker& worker) {
  out.counter("softhca_engine_polls_total", "Poll steps of the engine.", {},
              number(worker.polls()));
  out.counter("softhca_engine_sleeps_total", "Times the engine slept.", {},
              number(worker.sleeps()));
  out.counter("softhca_engine_busy_seconds_total", "Engine time in poll steps that had work.", {},
              number(worker.busy()) * 1e-9);
}

void add_faults(Families& out, const engine::Faults& faults) {
  for (std::size_t i = 0; i < engine::kFaultKinds; ++i) {
    const auto kind = static_cast<engine::FaultKind>(i);
    out.counter("softhca_faults_injected_total",
                "Packets and messages that injected faults have affected.",
                {{"kind", name_of(kind)}}, number(faults.injected(kind)));
  }
  out.gauge("softhca_faults_active", "Injected faults in force.", {}, faults.active().value());
  out.gauge("softhca_fault_packets_held", "Packets that injected faults delay.", {},
            faults.held().value());
  out.counter("softhca_fault_no_room_total",
              "Packets that a fault had no room to delay or duplicate, and delayed packets that "
              "the port had no room for.",
              {}, number(faults.no_room()));
}

}  // namespace

void add_daemon(Families& out, const Source& source) {
  const BuildInfo& build = source.build;
  out.gauge("softhca_build_info", "Always 1; the labels have the version and how it was built.",
            {{"version", build.version}, {"compiler", build.compiler}, {"dpdk", build.dpdk}}, 1);
  out.gauge("process_start_time_seconds", "Start time of the daemon since 1970.", {},
            std::chrono::duration<double>(source.started.time_since_epoch()).count());
  if (source.dropped_log_lines != nullptr)
    out.counter("softhca_log_lines_dropped_total",
                "Log lines dropped because the log was read too slowly.", {},
                number(*source.dropped_log_lines));
  add_reloads(out, source.reloads);
  add_engine(out, source.worker);
  add_faults(out, source.engine.faults);
}

}  // namespace softhca::metrics
