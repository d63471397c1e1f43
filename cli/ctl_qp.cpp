// SPDX-License-Identifier: Apache-2.0

// qp show: shows one queue pair and its history.
#include <cmath>
#include <cstdio>

#include "cli/ctl_commands.hpp"
#include "cli/ctl_text.hpp"

namespace softhca::cli {
namespace {

/// Returns "67 ms", for a timeout attribute of 4.096 us * 2^code.
std::string timeout_text(unsigned code) {
  if (code == 0) return "never";
  const double ms = 0.004096 * std::exp2(code);
  char text[32];
  std::snprintf(text, sizeof text, ms < 10 ? "%.2f ms" : "%.0f ms", ms);
  return text;
}

void print_gone(const Json& qp) {
  print("queue pair " + cell(qp, "qpn") + " of tenant " + cell(qp, "tenant") + ", process " +
        cell(qp, "pid") + ": gone\n" + "failed " + clock_text(qp.value("failed", 0.0)) + ": " +
        cell(qp, "failure") + "\n");
  if (qp.contains("destination"))
    print("peer " + cell(qp, "destination") + ", queue pair " + cell(qp, "destination_qpn") + "\n");
}

std::string peer_text(const Json& qp) {
  if (!qp.contains("destination")) return "no peer; ";
  return "from " + cell(qp, "source") + " to " + cell(qp, "destination") + ", queue pair " +
         cell(qp, "destination_qpn") +
         (cell(qp, "path") == "local" ? ", inside the daemon; " : ", on the wire; ");
}

std::string access_text(const Json& list) {
  std::string text;
  for (const Json& flag : list) text += (text.empty() ? "" : ", ") + flag.get<std::string>();
  return text.empty() ? "none" : text;
}

void print_attributes(const Json& of) {
  if (of.contains("qkey")) print("Q_Key " + cell(of, "qkey") + "\n");
  if (of.contains("access")) print("access of the peer: " + access_text(of.at("access")) + "\n");
  if (!of.contains("timeout")) return;
  print("timeout " + cell(of, "timeout") + " (" + timeout_text(of.value("timeout", 0u)) +
        "), retries " + cell(of, "retry_count") + ", RNR retries " + cell(of, "rnr_retry") +
        (of.value("rnr_retry", 0) == 7 ? " (no limit)" : "") + ", RNR timer " +
        cell(of, "min_rnr_timer") + "; reads and atomics: " + cell(of, "max_rd_atomic") + " out, " +
        cell(of, "max_dest_rd_atomic") + " in\n");
}

void print_one(const Json& qp) {
  print("queue pair " + cell(qp, "qpn") + " of tenant " + cell(qp, "tenant") + ", process " +
        cell(qp, "pid") + ": " + cell(qp, "type") + ", " + cell(qp, "state") + " since " +
        clock_text(qp.value("state_since", 0.0)) + "\n");
  if (qp.contains("failure")) print("failed: " + cell(qp, "failure") + "\n");
  print(peer_text(qp) + "MTU " + cell(qp, "mtu") + ", TVL " + cell(qp, "tvl") +
        (qp.contains("level") ? ", level " + cell(qp, "level") : "") +
        (qp.contains("srq") ? ", shared receive queue " + cell(qp, "srq") : "") + "\n");
  print_attributes(qp.value("attributes", Json::object()));
  const auto waiting = qp.value("commands", 0u) - qp.value("started", 0u);
  print("commands: " + cell(qp, "started") + " started, " + std::to_string(waiting) +
        " waiting; sent again: " + cell(qp, "retransmitted_packets") + " packets, by " +
        cell(qp, "timeouts") + " timeouts, " + cell(qp, "early_retries") + " early retries, " +
        cell(qp, "rnr_naks_received") + " RNR NAKs, " + cell(qp, "sequence_naks_received") +
        " sequence NAKs\n");
}

void print_events(const Json& events) {
  if (events.empty()) return print("\nno events so far\n");
  TextTable table({"TIME", "UNTIL", "TIMES", "PSN", "EVENT"});
  for (const Json& event : events)
    table.add({clock_text(event.value("time", 0.0)),
               event.contains("last") ? clock_text(event.value("last", 0.0)) : "-",
               cell(event, "count"), cell(event, "psn"), cell(event, "text")});
  print("\n" + table.text());
}

}  // namespace

void show_queue_pair(AdminClient& daemon, std::uint32_t qpn, bool json) {
  const Json qp = daemon.call("qp.show", {{"qpn", qpn}});
  if (json) return print_json(qp);
  qp.value("gone", false) ? print_gone(qp) : print_one(qp);
  print_events(qp.at("events"));
}

}  // namespace softhca::cli
