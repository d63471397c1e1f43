// The daemon as a whole: what it is, when it began, its configuration, its engine.
#include "daemon/metrics/collect.hpp"

namespace softhca::metrics {
namespace {

void add_reloads(Families& out, const resource::ReloadCounters& reloads) {
  for (std::size_t i = 0; i < reloads.by_result.size(); ++i)
    out.counter("softhca_reloads_total", "Reloads of the configuration, by result.",
                {{"result", resource::name_of(static_cast<resource::ReloadOutcome>(i))}},
                number(reloads.by_result[i]));
  out.gauge("softhca_config_last_reload_successful",
            "1: the last reload put the configuration file into force, or there was none.", {},
            reloads.last_successful.value());
  out.gauge("softhca_config_last_reload_success_timestamp_seconds",
            "When the configuration file was last put into force.", {},
            number(reloads.last_success_ms) * 1e-3);
}

void add_engine(Families& out, const engine::Worker& worker) {
  out.counter("softhca_engine_polls_total", "Poll steps of the engine.", {},
              number(worker.polls()));
  out.counter("softhca_engine_sleeps_total", "Times the engine slept.", {},
              number(worker.sleeps()));
  out.counter("softhca_engine_busy_seconds_total",
              "Time of the engine in poll steps that had something to do.", {},
              number(worker.busy()) * 1e-9);
}

}  // namespace

void add_daemon(Families& out, const Source& source) {
  const BuildInfo& build = source.build;
  out.gauge("softhca_build_info", "1: the program, and what it was built with.",
            {{"version", build.version}, {"compiler", build.compiler}, {"dpdk", build.dpdk}}, 1);
  out.gauge("process_start_time_seconds", "When the daemon began, since 1970.", {},
            std::chrono::duration<double>(source.started.time_since_epoch()).count());
  add_reloads(out, source.reloads);
  add_engine(out, source.worker);
}

}  // namespace softhca::metrics
