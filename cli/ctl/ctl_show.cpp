// SPDX-License-Identifier: Apache-2.0

// Commands that show a state once: status, tenants, queue pairs, shared receive queues, events.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <thread>

#include "cli/ctl/ctl_commands.hpp"
#include "cli/ctl/ctl_output.hpp"

namespace softhca::cli {
namespace {

// With --follow, softhcactl asks the daemon for events at this interval.
constexpr auto kFollowInterval = std::chrono::milliseconds(300);

/// True if the amounts of a pool or limit are bytes.
bool counts_bytes(const std::string& name) { return name.ends_with("_bytes"); }

/// Returns an amount of the pool or limit of this name.
std::string amount_of(const Output& out, const std::string& name, const Json& of, const char* key) {
  return counts_bytes(name) ? out.bytes(of, key) : cell(of, key);
}

void print_pools(const Json& pools, const Output& out) {
  TextTable divided({"POOL", "TOTAL", "UNALLOCATED", "LENT", "SHARED-FREE"});
  TextTable taken({"LIMITED", "TOTAL", "IN-USE"});
  for (const auto& [name, pool] : pools.items()) {
    if (pool.contains("unallocated"))
      divided.add({name, cell(pool, "total"), cell(pool, "unallocated"), cell(pool, "lent"),
                   cell(pool, "shared_free")});
    else
      taken.add({name, amount_of(out, name, pool, "total"), amount_of(out, name, pool, "in_use")});
  }
  out.section(divided);
  out.section(taken);
}

void print_ports(const Json& ports, const Output& out) {
  if (ports.empty()) return out.print("ports: none, loopback only\n");
  TextTable table({"PORT",
                   "STATE",
                   "MTU",
                   {"MAC", Column::kWide},
                   "RX-FRAMES",
                   "TX-FRAMES",
                   {"RX-MISSED", Column::kAlarm},
                   {"TX-DROPPED", Column::kAlarm}});
  for (const Json& port : ports)
    table.add({cell(port, "name"), port_state(port), cell(port, "mtu"), cell(port, "mac"),
               out.count(port, "rx_frames"), out.count(port, "tx_frames"),
               out.count(port, "rx_missed"), out.count(port, "tx_dropped")});
  out.section(table);
}

/// Returns the addresses of a tenant, or the first one and how many more there are.
std::string addresses_of(const Json& tenant, bool all = true) {
  std::string text;
  const Json addresses = tenant.value("addresses", Json::array());
  for (const Json& entry : addresses) {
    if (!all && !text.empty()) return text + " +" + std::to_string(addresses.size() - 1);
    text += (text.empty() ? "" : ",") + cell(entry, "address") +
            (entry.contains("port") ? "@" + cell(entry, "port") : "");
  }
  return text;
}

std::string networks_of(const Json& port) {
  std::string text;
  for (const Json& name : port.value("ports", Json::array()))
    text += (text.empty() ? "" : ",") + name.get<std::string>();
  return text;
}

/// Prints the ports of a tenant's devices, if there are several.
void print_devices(const Json& tenant, const Output& out) {
  const Json devices = tenant.value("devices", Json::array());
  TextTable table({"DEVICE",
                   "PORT",
                   "NETWORK",
                   "LINK",
                   "RATE",
                   "GUID",
                   "PCI",
                   "NUMA",
                   {"ADDRESSES", Column::kWide}});
  std::size_t rows = 0;
  for (const Json& device : devices)
    for (const Json& port : device.value("ports", Json::array({{{"link", device.at("link")}}}))) {
      const auto is_of_port = [&](const Json& address) {
        return address.value("device", device.at("name")) == device.at("name") &&
               address.value("device_port", 1) == port.value("number", 1);
      };
      Json own = Json::array();
      std::ranges::copy_if(tenant.at("addresses"), std::back_inserter(own), is_of_port);
      table.add({cell(device, "name"), cell(port, "number"), networks_of(port), cell(port, "link"),
                 cell(device, "rate"), cell(device, "guid"), cell(device, "pci"),
                 cell(device, "numa"), addresses_of({{"addresses", std::move(own)}})});
      ++rows;
    }
  if (rows > 1) out.section(table);
}

void print_tvls(const Json& tvls, const Output& out) {
  TextTable table({"TVL",
                   "LEVEL",
                   "PURPOSE",
                   "WEIGHT",
                   "EXECUTION",
                   "COMPLETION",
                   "KICK-LIST",
                   "STARTED",
                   {"EXEC-WAITS", Column::kWide | Column::kAlarm},
                   {"COMPL-WAITS", Column::kWide | Column::kAlarm}});
  for (const Json& tvl : tvls) {
    const Json kick = tvl.value("kick_list", Json::object());
    table.add({cell(tvl, "tvl"), cell(tvl, "level"), cell(tvl, "purpose"), cell(tvl, "weight"),
               use_of(tvl, "execution_credits"), use_of(tvl, "completion_credits"),
               cell(kick, "waiting") + "/" + cell(kick, "limit"), out.count(tvl, "started"),
               out.count(tvl, "execution_waits"), out.count(tvl, "completion_waits")});
  }
  out.section(table);
}

void print_levels(const Json& levels, const Output& out) {
  if (levels.empty()) return;
  TextTable table({"LEVEL", "VCBS", "PCBS", "HIGH-WATER", "DRAINING", {"REFUSED", Column::kAlarm}});
  for (const Json& level : levels) {
    const Json pcbs = level.value("pcbs", Json::object());
    table.add({cell(level, "name"), use_of(level, "vcbs"), use_of(level, "pcbs"),
               cell(pcbs, "high_water"), cell(pcbs, "draining"), cell(pcbs, "refused")});
  }
  out.section(table);
}

/// Prints minimum rates, if any.
void print_minimums(const Json& tenant, const Output& out) {
  TextTable table({"MINIMUM-OF", "RATE", "FIRST-BYTES"});
  bool any = false;
  const auto add = [&](const std::string& name, const Json& of) {
    const Json minimum = of.value("minimum", Json::object());
    any |= minimum.value("bytes_per_second", std::uint64_t{0}) != 0;
    table.add({name, out.byte_rate(minimum.value("bytes_per_second", 0.0)),
               out.bytes(minimum, "first_bytes")});
  };
  add("tenant", tenant);
  for (const Json& level : tenant.value("levels", Json::array())) add(cell(level, "name"), level);
  if (!any) return;
  out.section(table);
}

void print_limits(const Json& limits, const Output& out) {
  TextTable table({"RESOURCE",
                   "LIMIT",
                   "IN-USE",
                   "HIGH-WATER",
                   {"REFUSED", Column::kAlarm},
                   {"BY-POOL", Column::kAlarm}});
  for (const auto& [name, limit] : limits.items())
    table.add({name, amount_of(out, name, limit, "limit"), amount_of(out, name, limit, "in_use"),
               amount_of(out, name, limit, "high_water"), out.count(limit, "refused"),
               out.count(limit, "refused_by_pool")});
  out.section(table);
}

std::string carried_text(const Json& level) {
  return cell(level, "admitted") + "/" +
         (level.at("carried").is_null() ? "any" : cell(level, "carried"));
}

/// Prints the tenant's limits for rdma_cm, and how many connections its guarantees carry.
void print_connections(const Json& connections, const Output& out) {
  if (connections.is_null()) return;
  TextTable limits({"CONNECTIONS", "LIMIT", "IN-USE", "REFUSED"});
  for (const auto& [name, limit] : connections.at("limits").items())
    limits.add({name, cell(limit, "limit"), cell(limit, "in_use"), cell(limit, "refused")});
  TextTable admission({"CONNECTIONS-OF", "ADMITTED", "REFUSED"});
  for (const Json& level : connections.at("admission").at("levels")) {
    const std::string name = cell(level, "level");
    admission.add({name.empty() ? "no level" : name, carried_text(level), cell(level, "refused")});
  }
  out.section(limits);
  out.section(admission);
}

void print_processes(const Json& processes, const Output& out) {
  TextTable table({"SESSION",
                   "LEVEL",
                   "PID",
                   {"UID", Column::kWide},
                   "COMMAND",
                   "VCBS",
                   "QPS",
                   "CQS",
                   "SRQS",
                   "MRS"});
  for (const Json& p : processes)
    table.add({cell(p, "session"), cell(p, "level"), cell(p, "pid"), cell(p, "uid"),
               cell(p, "comm"), cell(p, "vcbs"), cell(p, "queue_pairs"),
               cell(p, "completion_queues"), cell(p, "shared_receive_queues"),
               cell(p, "memory_regions")});
  out.section(table);
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
void print_use(const Json& srq, const Output& out) {
  out.print("\nSRQ " + cell(srq, "srq") + ": " + policy_text(srq) + "\n");
  TextTable board({"QPN",
                   "PEER",
                   "DRAWS",
                   "SCORE",
                   "HELD",
                   "LIMIT",
                   {"RULE", Column::kWide},
                   {"QUARANTINED", Column::kAlarm}});
  for (const Json& who : srq.at("score_board")) {
    char score[32] = "";
    if (who.contains("score")) std::snprintf(score, sizeof score, "%.1f", who.value("score", 0.0));
    board.add({cell(who, "qpn"), cell(who, "peer"), out.count(who, "draws"), score,
               cell(who, "held"), cell(who, "limit"), cell(who, "rule"), cell(who, "quarantined")});
  }
  if (!srq.at("score_board").empty()) out.print(board);
  for (const Json& sentence : srq.at("advice")) out.print(sentence.get<std::string>() + "\n");
}

void print_restarts(const Json& restarts, const Output& out) {
  if (!restarts.contains("last")) return;
  std::string text;
  for (const char* const cause : {"upgrade", "crash", "hang", "rollback"})
    if (const auto count = restarts.value(cause, std::uint64_t{0}); count != 0)
      text += (text.empty() ? "" : ", ") + std::string(cause) + " " + std::to_string(count);
  const Json& last = restarts["last"];
  out.print("restarts: " + text + "; the last by " + cell(last, "cause") + ", " +
            std::to_string(std::lround(last.value("blackout_s", 0.0) * 1000)) +
            " ms without service\n");
}

/// Prints a line if programs kept the processor that the engine yielded in the last second.
void print_lost_time(const Json& engine, const Output& out) {
  const long percent = std::lround(engine.value("yield_share", 0.0) * 100);
  if (percent == 0) return;
  out.print("engine: programs on its core took " + std::to_string(percent) +
            " % of the last second; pin them elsewhere\n");
}

}  // namespace

std::string port_state(const Json& port) {
  std::string state = port.value("state", port.value("up", false) ? "up" : "no link");
  std::ranges::replace(state, '_', ' ');
  return state + (state == "up" && port.contains("link") ? " by " + cell(port, "link") : "");
}

void show_status(AdminClient& daemon, Output& out) {
  const Json status = daemon.read("status");
  if (out.document(status)) return;
  char busy[32];
  std::snprintf(busy, sizeof busy, "%.1f", status.at("engine").value("busy_share", 0.0) * 100);
  out.print("softhcad " + cell(status, "version") + ", process " + cell(status, "pid") + ", up " +
            duration_text(status.value("uptime_s", 0.0)) + "\n");
  out.print("adapter: process " + cell(status, "adapter_pid") + ", engine busy " + busy +
            " % of its time\n");
  out.print(counted(cell(status, "tenants"), "tenant") + ", " +
            counted(cell(status, "sessions"), "session") + ", device " + cell(status, "device") +
            ", runtime directory " + cell(status, "runtime_dir") + "\n");
  print_lost_time(status.at("engine"), out);
  print_restarts(status.value("restarts", Json::object()), out);
  print_ports(status.at("ports"), out);
  print_pools(status.at("pools"), out);
  const Json faults = status.value("faults", Json::array());
  if (faults.empty()) return;
  out.print("\nfaults are injected:\n");
  print_faults(faults, out);
}

void show_tenants(AdminClient& daemon, Output& out) {
  const Json result = daemon.read("tenants");
  if (out.document(result)) return;
  TextTable table({"TENANT",
                   "LINK",
                   "ADDRESSES",
                   "SESSIONS",
                   "QPS",
                   "VCBS",
                   "PCBS",
                   {"REFUSED", Column::kAlarm},
                   {"HIGH-WATER", Column::kWide}});
  for (const Json& tenant : result.at("tenants"))
    table.add({cell(tenant, "name"),
               tenant.value("leaving", false) ? "leaving" : cell(tenant, "link"),
               addresses_of(tenant, out.is_wide()), cell(tenant, "sessions"),
               cell(tenant, "queue_pairs"), use_of(tenant, "vcbs"), use_of(tenant, "pcbs"),
               out.count(tenant.at("pcbs"), "refused"), cell(tenant.at("pcbs"), "high_water")});
  out.print(table);
}

void show_tenant(AdminClient& daemon, const std::string& name, Output& out) {
  const Json tenant = daemon.read("tenant.show", {{"name", name}});
  if (out.document(tenant)) return;
  const Json& pcbs = tenant.at("pcbs");
  out.print("tenant " + cell(tenant, "name") + ", link " + cell(tenant, "link") + ", path MTU " +
            cell(tenant, "path_mtu") + ", addresses " + addresses_of(tenant) +
            (tenant.value("leaving", false)
                 ? ", leaving"
                 : ", share " + cell(tenant, "share") + ", class " + cell(tenant, "class")) +
            "\n");
  if (tenant.contains("machine"))
    out.print("virtual machine: " + cell(tenant.at("machine"), "state") + ", " +
              cell(tenant.at("machine"), "guest_memory") + " bytes of guest_memory\n");
  print_devices(tenant, out);
  TextTable table({"",
                   "GUARANTEED",
                   "LENT",
                   "IN-USE",
                   "SHARED",
                   "HIGH-WATER",
                   "DRAINING",
                   {"REFUSED", Column::kAlarm}});
  for (const char* kind : {"vcbs", "pcbs"}) {
    const Json& quota = tenant.at(kind);
    table.add({kind, cell(quota, "guaranteed"), cell(quota, "lent"), cell(quota, "in_use"),
               cell(quota, "shared"), cell(quota, "high_water"), cell(quota, "draining"),
               cell(quota, "refused")});
  }
  out.section(table);
  out.print("dedicated PCBs: " + cell(pcbs, "dedicated") + " in use, " +
            cell(pcbs, "dedicated_refused") + " refused\n");
  print_levels(tenant.value("levels", Json::array()), out);
  print_minimums(tenant, out);
  print_tvls(tenant.at("tvls"), out);
  print_limits(tenant.at("limits"), out);
  print_connections(tenant.value("connections", Json()), out);
  print_processes(tenant.at("processes"), out);
}

Json filtered_list(AdminClient& daemon, const char* method, const Filter& filter) {
  Json list = daemon.whole_list(method, filter.tenant);
  Json kept = Json::array();
  for (Json& entry : list.at(method))
    if (filter.keeps(entry)) kept.push_back(std::move(entry));
  list[method] = std::move(kept);
  return list;
}

bool Filter::keeps(const Json& entry) const {
  const auto has = [&](const char* key, const std::string& value) {
    const std::string text = cell(entry, key);
    // Connections have a port behind the address.
    return text == value || text.starts_with(value + ":") || text.starts_with("[" + value + "]:");
  };
  if (pid && entry.value("pid", std::uint32_t{0}) != *pid) return false;
  if (!peer.empty() && !has("destination", peer) && !has("peer", peer)) return false;
  return states.empty() || std::any_of(states.begin(), states.end(), [&](const std::string& state) {
           return cell(entry, "state") == state;
         });
}

void show_queue_pairs(AdminClient& daemon, const Filter& filter, Output& out) {
  const Json list = filtered_list(daemon, "qps", filter);
  if (out.document(list)) return;
  constexpr unsigned kWide = Column::kWide;
  TextTable table({"QPN",
                   "TYPE",
                   "STATE",
                   "TENANT",
                   {"DEVICE", kWide},
                   {"LEVEL", kWide},
                   "PID",
                   {"TVL", kWide},
                   {"PATH", kWide},
                   "PEER",
                   {"PEER-QPN", kWide},
                   {"RESENT", Column::kAlarm},
                   "STARTED",
                   "WAITING",
                   {"TIMEOUTS", kWide | Column::kAlarm},
                   {"RNR", kWide | Column::kAlarm},
                   {"SRQ", kWide},
                   {"FAILURE", kWide}});
  for (const Json& qp : list.at("qps")) {
    const auto waiting = qp.value("commands", 0u) - qp.value("started", 0u);
    table.add({cell(qp, "qpn"), cell(qp, "type"), cell(qp, "state"), cell(qp, "tenant"),
               cell(qp, "device"), cell(qp, "level"), cell(qp, "pid"), cell(qp, "tvl"),
               cell(qp, "path"), cell(qp, "destination"), cell(qp, "destination_qpn"),
               out.count(qp, "retransmitted_packets"), out.count(qp, "started"), out.count(waiting),
               out.count(qp, "timeouts"), out.count(qp, "rnr_naks_received"), cell(qp, "srq"),
               cell(qp, "failure")});
  }
  out.print(table);
}

void show_shared_receive_queues(AdminClient& daemon, const Filter& filter, Output& out) {
  const Json list = filtered_list(daemon, "srqs", filter);
  if (out.document(list)) return;
  constexpr unsigned kWide = Column::kWide;
  TextTable table({"SRQ",
                   "TENANT",
                   "PID",
                   "QPS",
                   {"ACTIVE", kWide},
                   "MAX-WR",
                   "AVAILABLE",
                   "HELD",
                   {"UNASSIGNED", kWide},
                   "PEAK",
                   {"EMPTY", Column::kAlarm},
                   {"QUARANTINED", kWide | Column::kAlarm},
                   {"LIMIT", kWide},
                   {"WATERMARK", kWide},
                   "FAILED"});
  for (const Json& srq : list.at("srqs")) {
    const Json provisioning = srq.value("provisioning", Json::object());
    const Json policy = provisioning.value("policy", Json::object());
    table.add({cell(srq, "srq"), cell(srq, "tenant"), cell(srq, "pid"), cell(srq, "queue_pairs"),
               cell(provisioning, "active_queue_pairs"), cell(srq, "max_wr"),
               cell(srq, "available"), cell(provisioning, "held"), cell(provisioning, "unassigned"),
               cell(srq, "peak"), out.count(srq, "found_empty"), cell(provisioning, "quarantined"),
               cell(srq, "limit"), cell(policy, "watermark"), cell(srq, "failed")});
  }
  out.print(table);
  for (const Json& srq : list.at("srqs"))
    if (srq.contains("provisioning") || !srq.at("score_board").empty()) print_use(srq, out);
}

void show_events(AdminClient& daemon, const EventOptions& options, Output& out) {
  std::uint64_t after = options.after;
  Json list = Json::array();  // one document, unless following
  for (bool first = true;; first = false) {
    const Json page = daemon.read("events", {{"after", after}});
    if (page.value("lost", false) && !first)
      std::fputs("softhcactl: the daemon dropped some events before they were read\n", stderr);
    for (const Json& event : page.at("events")) {
      if (!options.tenant.empty() && event.value("tenant", "") != options.tenant) continue;
      if (options.pid && event.value("pid", std::uint32_t{0}) != *options.pid) continue;
      if (!out.is_document())
        out.print(event_text(event) + "\n");
      else if (options.follow)
        out.document(event);
      else
        list.push_back(event);
    }
    const std::uint64_t last = page.value("last", after);
    const bool more = !page.at("events").empty() && last != after;
    after = last;
    if (more) continue;
    if (!options.follow) break;
    flush_output();
    std::this_thread::sleep_for(kFollowInterval);
  }
  out.document({{"events", std::move(list)}, {"last", after}});
}

}  // namespace softhca::cli
