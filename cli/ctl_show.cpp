// SPDX-License-Identifier: Apache-2.0

// Commands that show a state once: status, tenants, queue pairs, shared receive queues, events.
#include <chrono>
#include <cstdio>
#include <ctime>
#include <thread>

#include "cli/ctl_commands.hpp"
#include "cli/ctl_text.hpp"

namespace softhca::cli {
namespace {

// With --follow, softhcactl asks the daemon for events at this interval.
constexpr auto kFollowInterval = std::chrono::milliseconds(300);

void print_pools(const Json& pools) {
  TextTable divided({"POOL", "TOTAL", "UNALLOCATED", "LENT", "SHARED-FREE"});
  TextTable taken({"LIMITED", "TOTAL", "IN-USE"});
  for (const auto& [name, pool] : pools.items()) {
    if (pool.contains("unallocated"))
      divided.add({name, cell(pool, "total"), cell(pool, "unallocated"), cell(pool, "lent"),
                   cell(pool, "shared_free")});
    else
      taken.add({name, cell(pool, "total"), cell(pool, "in_use")});
  }
  print("\n" + divided.text() + "\n" + taken.text());
}

void print_ports(const Json& ports) {
  if (ports.empty()) return print("ports: none, loopback only\n");
  TextTable table(
      {"PORT", "UP", "MTU", "MAC", "RX-FRAMES", "TX-FRAMES", "RX-MISSED", "TX-DROPPED"});
  for (const Json& port : ports)
    table.add({cell(port, "name"), cell(port, "up"), cell(port, "mtu"), cell(port, "mac"),
               cell(port, "rx_frames"), cell(port, "tx_frames"), cell(port, "rx_missed"),
               cell(port, "tx_dropped")});
  print("\n" + table.text());
}

std::string addresses_of(const Json& tenant) {
  std::string text;
  for (const Json& entry : tenant.value("addresses", Json::array()))
    text += (text.empty() ? "" : ",") + cell(entry, "address") +
            (entry.contains("port") ? "@" + cell(entry, "port") : "");
  return text;
}

void print_tvls(const Json& tvls) {
  TextTable table({"TVL", "LEVEL", "PURPOSE", "WEIGHT", "EXECUTION", "COMPLETION", "KICK-LIST",
                   "STARTED", "EXEC-WAITS", "COMPL-WAITS"});
  for (const Json& tvl : tvls) {
    const Json kick = tvl.value("kick_list", Json::object());
    table.add({cell(tvl, "tvl"), cell(tvl, "level"), cell(tvl, "purpose"), cell(tvl, "weight"),
               use_of(tvl, "execution_credits"), use_of(tvl, "completion_credits"),
               cell(kick, "waiting") + "/" + cell(kick, "limit"), cell(tvl, "started"),
               cell(tvl, "execution_waits"), cell(tvl, "completion_waits")});
  }
  print("\n" + table.text());
}

void print_levels(const Json& levels) {
  if (levels.empty()) return;
  TextTable table({"LEVEL", "VCBS", "PCBS", "HIGH-WATER", "DRAINING", "REFUSED"});
  for (const Json& level : levels) {
    const Json pcbs = level.value("pcbs", Json::object());
    table.add({cell(level, "name"), use_of(level, "vcbs"), use_of(level, "pcbs"),
               cell(pcbs, "high_water"), cell(pcbs, "draining"), cell(pcbs, "refused")});
  }
  print("\n" + table.text());
}

/// Prints minimum rates, if any.
void print_minimums(const Json& tenant) {
  TextTable table({"MINIMUM-OF", "BYTES/S", "FIRST-BYTES"});
  bool any = false;
  const auto add = [&](const std::string& name, const Json& of) {
    const Json minimum = of.value("minimum", Json::object());
    any |= minimum.value("bytes_per_second", std::uint64_t{0}) != 0;
    table.add({name, cell(minimum, "bytes_per_second"), cell(minimum, "first_bytes")});
  };
  add("tenant", tenant);
  for (const Json& level : tenant.value("levels", Json::array())) add(cell(level, "name"), level);
  if (any) print("\n" + table.text());
}

void print_limits(const Json& limits) {
  TextTable table({"RESOURCE", "LIMIT", "IN-USE", "HIGH-WATER", "REFUSED", "BY-POOL"});
  for (const auto& [name, limit] : limits.items())
    table.add({name, cell(limit, "limit"), cell(limit, "in_use"), cell(limit, "high_water"),
               cell(limit, "refused"), cell(limit, "refused_by_pool")});
  print("\n" + table.text());
}

std::string carried_text(const Json& level) {
  return cell(level, "admitted") + "/" +
         (level.at("carried").is_null() ? "any" : cell(level, "carried"));
}

/// Prints the tenant's limits for rdma_cm, and how many connections its guarantees carry.
void print_connections(const Json& connections) {
  if (connections.is_null()) return;
  TextTable limits({"CONNECTIONS", "LIMIT", "IN-USE", "REFUSED"});
  for (const auto& [name, limit] : connections.at("limits").items())
    limits.add({name, cell(limit, "limit"), cell(limit, "in_use"), cell(limit, "refused")});
  TextTable admission({"CONNECTIONS-OF", "ADMITTED", "REFUSED"});
  for (const Json& level : connections.at("admission").at("levels")) {
    const std::string name = cell(level, "level");
    admission.add({name.empty() ? "no level" : name, carried_text(level), cell(level, "refused")});
  }
  print("\n" + limits.text() + "\n" + admission.text());
}

void print_processes(const Json& processes) {
  TextTable table(
      {"SESSION", "LEVEL", "PID", "UID", "COMMAND", "VCBS", "QPS", "CQS", "SRQS", "MRS"});
  for (const Json& p : processes)
    table.add({cell(p, "session"), cell(p, "level"), cell(p, "pid"), cell(p, "uid"),
               cell(p, "comm"), cell(p, "vcbs"), cell(p, "queue_pairs"),
               cell(p, "completion_queues"), cell(p, "shared_receive_queues"),
               cell(p, "memory_regions")});
  print("\n" + table.text());
}

std::string policy_text(const Json& srq) {
  if (!srq.contains("provisioning")) return "no limits";
  const Json& policy = srq.at("provisioning").at("policy");
  return cell(policy, "kind") + " limits " + cell(policy, "limits") + " by importance, " +
         cell(policy, "on_exceed") + (policy.value("statistical", false) ? ", statistical" : "") +
         ", overcommit " + cell(policy, "overcommit");
}

/// Prints the queue pairs that draw most buffers, and the daemon's advice. Without limits, only the
/// draws are known.
void print_use(const Json& srq) {
  print("\nSRQ " + cell(srq, "srq") + ": " + policy_text(srq) + "\n");
  TextTable board({"QPN", "PEER", "DRAWS", "SCORE", "HELD", "LIMIT", "RULE", "QUARANTINED"});
  for (const Json& who : srq.at("score_board")) {
    char score[32] = "";
    if (who.contains("score")) std::snprintf(score, sizeof score, "%.1f", who.value("score", 0.0));
    board.add({cell(who, "qpn"), cell(who, "peer"), cell(who, "draws"), score, cell(who, "held"),
               cell(who, "limit"), cell(who, "rule"), cell(who, "quarantined")});
  }
  if (!srq.at("score_board").empty()) print(board.text());
  for (const Json& sentence : srq.at("advice")) print(sentence.get<std::string>() + "\n");
}

void print_event(const Json& event) {
  std::string line = clock_text(event.value("time", 0.0)) + "  " + cell(event, "kind");
  if (event.contains("tenant")) line += "  tenant " + cell(event, "tenant");
  if (event.contains("qpn")) line += "  queue pair " + cell(event, "qpn");
  if (event.contains("pid") && event.contains("qpn")) line += " of process " + cell(event, "pid");
  print(line + ": " + cell(event, "text") + "\n");
}

}  // namespace

void show_status(AdminClient& daemon, bool json) {
  const Json status = daemon.call("status");
  if (json) return print_json(status);
  char busy[32];
  std::snprintf(busy, sizeof busy, "%.1f", status.at("engine").value("busy_share", 0.0) * 100);
  print("softhcad " + cell(status, "version") + ", process " + cell(status, "pid") + ", up " +
        duration_text(status.value("uptime_s", 0.0)) + ", engine busy " + busy +
        " % of that time\n");
  print(counted(cell(status, "tenants"), "tenant") + ", " +
        counted(cell(status, "sessions"), "session") + ", device " + cell(status, "device") +
        ", runtime directory " + cell(status, "runtime_dir") + "\n");
  print_ports(status.at("ports"));
  print_pools(status.at("pools"));
  const Json faults = status.value("faults", Json::array());
  if (faults.empty()) return;
  print("\nfaults are injected:\n");
  print_faults(faults);
}

void show_tenants(AdminClient& daemon, bool json) {
  const Json result = daemon.call("tenants");
  if (json) return print_json(result);
  TextTable table(
      {"TENANT", "LINK", "SESSIONS", "QPS", "VCBS", "PCBS", "HIGH-WATER", "REFUSED", "ADDRESSES"});
  for (const Json& tenant : result.at("tenants"))
    table.add({cell(tenant, "name"),
               tenant.value("leaving", false) ? "leaving" : cell(tenant, "link"),
               cell(tenant, "sessions"), cell(tenant, "queue_pairs"), use_of(tenant, "vcbs"),
               use_of(tenant, "pcbs"), cell(tenant.at("pcbs"), "high_water"),
               cell(tenant.at("pcbs"), "refused"), addresses_of(tenant)});
  print(table.text());
}

void show_tenant(AdminClient& daemon, const std::string& name, bool json) {
  const Json tenant = daemon.call("tenant.show", {{"name", name}});
  if (json) return print_json(tenant);
  const Json& pcbs = tenant.at("pcbs");
  print("tenant " + cell(tenant, "name") + ", link " + cell(tenant, "link") + ", path MTU " +
        cell(tenant, "path_mtu") + ", addresses " + addresses_of(tenant) +
        (tenant.value("leaving", false)
             ? ", leaving"
             : ", share " + cell(tenant, "share") + ", class " + cell(tenant, "class")) +
        "\n");
  TextTable table(
      {"", "GUARANTEED", "LENT", "IN-USE", "SHARED", "HIGH-WATER", "DRAINING", "REFUSED"});
  for (const char* kind : {"vcbs", "pcbs"}) {
    const Json& quota = tenant.at(kind);
    table.add({kind, cell(quota, "guaranteed"), cell(quota, "lent"), cell(quota, "in_use"),
               cell(quota, "shared"), cell(quota, "high_water"), cell(quota, "draining"),
               cell(quota, "refused")});
  }
  print("\n" + table.text());
  print("dedicated PCBs: " + cell(pcbs, "dedicated") + " in use, " +
        cell(pcbs, "dedicated_refused") + " refused\n");
  print_levels(tenant.value("levels", Json::array()));
  print_minimums(tenant);
  print_tvls(tenant.at("tvls"));
  print_limits(tenant.at("limits"));
  print_connections(tenant.value("connections", Json()));
  print_processes(tenant.at("processes"));
}

void show_queue_pairs(AdminClient& daemon, const std::string& tenant, bool json) {
  const Json list = daemon.whole_list("qps", tenant);
  if (json) return print_json(list);
  TextTable table({"QPN", "TYPE", "STATE", "TENANT", "LEVEL", "PID", "TVL", "STARTED", "WAITING",
                   "PATH", "DESTINATION", "PEER-QPN", "RESENT", "TIMEOUTS", "RNR", "SRQ",
                   "FAILURE"});
  for (const Json& qp : list.at("qps")) {
    const auto waiting = qp.value("commands", 0u) - qp.value("started", 0u);
    table.add({cell(qp, "qpn"), cell(qp, "type"), cell(qp, "state"), cell(qp, "tenant"),
               cell(qp, "level"), cell(qp, "pid"), cell(qp, "tvl"), cell(qp, "started"),
               std::to_string(waiting), cell(qp, "path"), cell(qp, "destination"),
               cell(qp, "destination_qpn"), cell(qp, "retransmitted_packets"), cell(qp, "timeouts"),
               cell(qp, "rnr_naks_received"), cell(qp, "srq"), cell(qp, "failure")});
  }
  print(table.text());
}

void show_shared_receive_queues(AdminClient& daemon, const std::string& tenant, bool json) {
  const Json list = daemon.whole_list("srqs", tenant);
  if (json) return print_json(list);
  TextTable table({"SRQ", "TENANT", "PID", "QPS", "ACTIVE", "MAX-WR", "AVAILABLE", "HELD",
                   "UNASSIGNED", "PEAK", "EMPTY", "QUARANTINED", "LIMIT", "WATERMARK", "FAILED"});
  for (const Json& srq : list.at("srqs")) {
    const Json provisioning = srq.value("provisioning", Json::object());
    const Json policy = provisioning.value("policy", Json::object());
    table.add({cell(srq, "srq"), cell(srq, "tenant"), cell(srq, "pid"), cell(srq, "queue_pairs"),
               cell(provisioning, "active_queue_pairs"), cell(srq, "max_wr"),
               cell(srq, "available"), cell(provisioning, "held"), cell(provisioning, "unassigned"),
               cell(srq, "peak"), cell(srq, "found_empty"), cell(provisioning, "quarantined"),
               cell(srq, "limit"), cell(policy, "watermark"), cell(srq, "failed")});
  }
  print(table.text());
  for (const Json& srq : list.at("srqs"))
    if (srq.contains("provisioning") || !srq.at("score_board").empty()) print_use(srq);
}

void show_events(AdminClient& daemon, const EventOptions& options, bool json) {
  std::uint64_t after = options.after;
  Json list = Json::array();  // one document, unless following
  for (bool first = true;; first = false) {
    const Json page = daemon.call("events", {{"after", after}});
    if (page.value("lost", false) && !first)
      std::fputs("softhcactl: the daemon dropped some events before they were read\n", stderr);
    for (const Json& event : page.at("events")) {
      if (!options.tenant.empty() && event.value("tenant", "") != options.tenant) continue;
      if (!json)
        print_event(event);
      else if (options.follow)
        print_json(event);
      else
        list.push_back(event);
    }
    const std::uint64_t last = page.value("last", after);
    const bool more = !page.at("events").empty() && last != after;
    after = last;
    if (more) continue;
    if (!options.follow) break;
    std::fflush(stdout);
    std::this_thread::sleep_for(kFollowInterval);
  }
  if (json) print_json({{"events", std::move(list)}, {"last", after}});
}

}  // namespace softhca::cli
