// top: what each tenant does per second, from the differences of the daemon's counters.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "cli/ctl_commands.hpp"
#include "cli/ctl_text.hpp"

namespace softhca::cli {
namespace {

constexpr char kClear[] = "\x1b[H\x1b[J";

/// Of a tenant in an earlier sample; null: it is new.
Json before_of(const Json& sample, const std::string& name) {
  for (const Json& tenant : sample["tenants"])
    if (tenant.value("name", "") == name) return tenant;
  return {};
}

class Rates {
 public:
  Rates(const Json& before, const Json& now, double seconds)
      : before_(before), now_(now), seconds_(seconds) {}

  double of(const Json::json_pointer& counter) const {
    const double old = before_.is_null() ? 0 : before_.value(counter, 0.0);
    const double grown = now_.value(counter, 0.0) - old;
    return grown > 0 ? grown / seconds_ : 0;  // another tenant of the same name starts again
  }
  double of(const char* counter) const {
    return of(Json::json_pointer(std::string("/") + counter));
  }

 private:
  const Json& before_;
  const Json& now_;
  double seconds_;
};

Json rates_of(const Json& before, const Json& now, double seconds) {
  const Rates rate(before, now, seconds);
  return {{"name", now["name"]},
          {"sessions", now["sessions"]},
          {"queue_pairs", now["queue_pairs"]},
          {"commands_per_s", rate.of("commands_vcb") + rate.of("commands_doorbell")},
          {"local_bytes_per_s", rate.of("local_bytes")},
          {"tx_bytes_per_s", rate.of("tx_bytes")},
          {"rx_bytes_per_s", rate.of("rx_bytes")},
          {"completions_per_s", rate.of("completions")},
          {"errors_per_s", rate.of("completion_errors")},
          {"retransmissions_per_s", rate.of("retransmitted_packets")},
          {"send_queue_mode_per_s", rate.of("send_queue_mode")},
          {"throttled_share", rate.of("throttled_s")},
          {"pcbs", now["pcbs"]},
          {"pcb_refusals_per_s", rate.of("pcbs/refused")},
          {"execution_credits", now["lanes"]["execution_credits"]},
          {"completion_credits", now["lanes"]["completion_credits"]},
          {"kick_list", now["lanes"]["kick_list"]},
          {"execution_waits_per_s", rate.of("lanes/execution_waits")},
          {"completion_waits_per_s", rate.of("lanes/completion_waits")}};
}

Json view_of(const Json& before, const Json& now) {
  const double seconds = std::max(now.value("time_s", 0.0) - before.value("time_s", 0.0), 1e-3);
  const double busy = now["engine"].value("busy_s", 0.0) - before["engine"].value("busy_s", 0.0);
  Json tenants = Json::array();
  for (const Json& tenant : now["tenants"])
    tenants.push_back(rates_of(before_of(before, tenant.value("name", "")), tenant, seconds));
  return {{"time_s", now["time_s"]},
          {"seconds", seconds},
          {"engine_busy_share", busy / seconds},
          {"tenants", std::move(tenants)}};
}

std::string percent_of(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f%%", share * 100);
  return text;
}

std::string text_of(const Json& view) {
  char head[96];
  std::snprintf(head, sizeof head, "engine busy %s, %zu tenants, over %.1f s\n\n",
                percent_of(view.value("engine_busy_share", 0.0)).c_str(), view["tenants"].size(),
                view.value("seconds", 0.0));
  TextTable table({"TENANT", "QPS", "CMD/s", "LOCAL-B/s", "TX-B/s", "RX-B/s", "PCBS", "EXEC",
                   "COMPL", "KICK", "EXEC-WAIT/s", "COMPL-WAIT/s", "SQ-MODE/s", "THROTTLED",
                   "RETRY/s", "ERR/s"});
  for (const Json& tenant : view["tenants"]) {
    const auto rate = [&](const char* key) { return short_number(tenant.value(key, 0.0)); };
    table.add({cell(tenant, "name"), cell(tenant, "queue_pairs"), rate("commands_per_s"),
               rate("local_bytes_per_s"), rate("tx_bytes_per_s"), rate("rx_bytes_per_s"),
               use_of(tenant, "pcbs"), cell(tenant, "execution_credits"),
               cell(tenant, "completion_credits"), cell(tenant, "kick_list"),
               rate("execution_waits_per_s"), rate("completion_waits_per_s"),
               rate("send_queue_mode_per_s"), percent_of(tenant.value("throttled_share", 0.0)),
               rate("retransmissions_per_s"), rate("errors_per_s")});
  }
  return head + table.text();
}

}  // namespace

void show_top(AdminClient& daemon, const TopOptions& options, bool json) {
  const bool live = options.count == 0 && !json && ::isatty(STDOUT_FILENO) == 1;
  Json before = daemon.call("counters");
  for (std::uint64_t shown = 0; options.count == 0 || shown < options.count; ++shown) {
    std::this_thread::sleep_for(std::chrono::duration<double>(options.interval));
    Json now = daemon.call("counters");
    const Json view = view_of(before, now);
    if (live) std::fputs(kClear, stdout);
    if (!live && !json && shown != 0) std::puts("");
    std::fputs((json ? view.dump() + "\n" : text_of(view)).c_str(), stdout);
    std::fflush(stdout);
    before = std::move(now);
  }
}

}  // namespace softhca::cli
