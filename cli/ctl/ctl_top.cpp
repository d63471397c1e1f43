// SPDX-License-Identifier: Apache-2.0

// top: shows the activity of each tenant per second, from the differences of the daemon's counters.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "cli/ctl/ctl_commands.hpp"
#include "cli/ctl/ctl_output.hpp"

namespace softhca::cli {
namespace {

/// Returns the entry of `list` with this name, or null.
Json named(const Json& list, const std::string& name) {
  for (const Json& entry : list)
    if (entry.value("name", "") == name) return entry;
  return {};
}

class Rates {
 public:
  Rates(const Json& before, const Json& now, double seconds)
      : before_(before), now_(now), seconds_(seconds) {}

  double of(const Json::json_pointer& counter) const {
    const double old = before_.is_null() ? 0 : before_.value(counter, 0.0);
    const double grown = now_.value(counter, 0.0) - old;
    return grown > 0 ? grown / seconds_ : 0;  // smaller: counted anew
  }
  double of(const char* counter) const {
    return of(Json::json_pointer(std::string("/") + counter));
  }

 private:
  const Json& before_;
  const Json& now_;
  double seconds_;
};

/// Returns the rates that tenants and levels have in common.
Json common_rates(const Rates& rate, const Json& now) {
  const double waits = rate.of("arbitration_wait/count");
  return {{"name", now.at("name")},
          {"sessions", now.at("sessions")},
          {"commands_per_s", rate.of("commands_vcb") + rate.of("commands_doorbell")},
          {"send_queue_mode_per_s", rate.of("send_queue_mode")},
          {"pcbs", now.at("pcbs")},
          {"pcb_refusals_per_s", rate.of("pcbs/refused")},
          {"execution_credits", now.at("tvl_totals").at("execution_credits")},
          {"completion_credits", now.at("tvl_totals").at("completion_credits")},
          {"kick_list", now.at("tvl_totals").at("kick_list")},
          {"execution_waits_per_s", rate.of("tvl_totals/execution_waits")},
          {"completion_waits_per_s", rate.of("tvl_totals/completion_waits")},
          {"kicks_refused_per_s", rate.of("tvl_totals/kicks_refused")},
          {"arbitration_wait_s", waits > 0 ? rate.of("arbitration_wait/sum_s") / waits : 0}};
}

Json rates_of(const Json& before, const Json& now, double seconds) {
  const Rates rate(before, now, seconds);
  Json view = common_rates(rate, now);
  view.update({{"queue_pairs", now.at("queue_pairs")},
               {"local_bytes_per_s", rate.of("local_bytes")},
               {"tx_bytes_per_s", rate.of("tx_bytes")},
               {"rx_bytes_per_s", rate.of("rx_bytes")},
               {"completions_per_s", rate.of("completions")},
               {"errors_per_s", rate.of("completion_errors")},
               {"retransmissions_per_s", rate.of("retransmitted_packets")},
               {"throttled", now.at("throttled")},
               {"throttled_share", rate.of("throttled_s")}});
  Json levels = Json::array();
  const Json old = before.is_null() ? Json::array() : before.value("levels", Json::array());
  for (const Json& level : now.at("levels"))
    levels.push_back(
        common_rates(Rates(named(old, level.value("name", "")), level, seconds), level));
  view["levels"] = std::move(levels);
  return view;
}

Json view_of(const Json& before, const Json& now) {
  const double seconds = std::max(now.value("time_s", 0.0) - before.value("time_s", 0.0), 1e-3);
  const double busy = Rates(before.at("engine"), now.at("engine"), seconds).of("busy_s");
  Json tenants = Json::array();
  for (const Json& tenant : now.at("tenants"))
    tenants.push_back(
        rates_of(named(before.at("tenants"), tenant.value("name", "")), tenant, seconds));
  return {{"time_s", now.at("time_s")},
          {"seconds", seconds},
          {"engine_busy_share", busy},
          {"tenants", std::move(tenants)}};
}

std::string percent_of(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f%%", share * 100);
  return text;
}

std::string microseconds_of(double seconds) { return short_number(seconds * 1e6) + " us"; }

void print_view(const Json& view, const Output& out) {
  char head[96];
  std::snprintf(head, sizeof head, "engine busy %s, %s, over %.1f s\n",
                percent_of(view.value("engine_busy_share", 0.0)).c_str(),
                counted(std::to_string(view.at("tenants").size()), "tenant").c_str(),
                view.value("seconds", 0.0));
  out.print(head);
  constexpr unsigned kWide = Column::kWide, kAlarm = Column::kAlarm;
  TextTable table({"TENANT",
                   "COMMANDS",
                   "LOCAL",
                   "SENT",
                   "RECEIVED",
                   "WAIT",
                   {"RESENT", kAlarm},
                   {"ERRORS", kAlarm},
                   {"THROTTLED", kWide},
                   {"QPS", kWide},
                   {"PCBS", kWide},
                   {"EXEC", kWide},
                   {"COMPL", kWide},
                   {"KICK", kWide},
                   {"EXEC-WAITS", kWide | kAlarm},
                   {"COMPL-WAITS", kWide | kAlarm},
                   {"SQ-MODE", kWide}});
  // Levels have no values in the columns of whole tenants.
  const auto add = [&](const std::string& name, const Json& row) {
    const auto rate = [&](const char* key) {
      return row.contains(key) ? out.rate(row.value(key, 0.0)) : std::string();
    };
    const auto byte_rate = [&](const char* key) {
      return row.contains(key) ? out.byte_rate(row.value(key, 0.0)) : std::string();
    };
    const bool whole = row.contains("queue_pairs");
    table.add({name, rate("commands_per_s"), byte_rate("local_bytes_per_s"),
               byte_rate("tx_bytes_per_s"), byte_rate("rx_bytes_per_s"),
               microseconds_of(row.value("arbitration_wait_s", 0.0)), rate("retransmissions_per_s"),
               rate("errors_per_s"), whole ? percent_of(row.value("throttled_share", 0.0)) : "",
               whole ? cell(row, "queue_pairs") : "", use_of(row, "pcbs"),
               cell(row, "execution_credits"), cell(row, "completion_credits"),
               cell(row, "kick_list"), rate("execution_waits_per_s"),
               rate("completion_waits_per_s"), rate("send_queue_mode_per_s")});
  };
  for (const Json& tenant : view.at("tenants")) {
    add(cell(tenant, "name"), tenant);
    for (const Json& level : tenant.at("levels"))
      add(cell(tenant, "name") + "/" + cell(level, "name"), level);
  }
  out.section(table);
}

}  // namespace

void show_top(AdminClient& daemon, const TopOptions& options, Output& out) {
  Json before = daemon.read("counters");
  for (std::uint64_t shown = 0; options.count == 0 || shown < options.count; ++shown) {
    std::this_thread::sleep_for(std::chrono::duration<double>(options.interval));
    Json now = daemon.read("counters");
    const Json view = view_of(before, now);
    if (options.count != 1) out.begin_round();
    if (!out.document(view)) print_view(view, out);
    flush_output();
    before = std::move(now);
  }
}

}  // namespace softhca::cli
