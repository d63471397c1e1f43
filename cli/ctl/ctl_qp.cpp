// SPDX-License-Identifier: Apache-2.0

// qp show: shows one queue pair and its history.
#include <cmath>
#include <cstdio>

#include "cli/ctl/ctl_commands.hpp"
#include "cli/ctl/ctl_output.hpp"

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

/// Returns the time of the last of repeated events, without its date on the day of the first one.
std::string until_text(const Json& event, bool with_date) {
  const std::string first = clock_text(event.value("time", 0.0));
  const std::string last = clock_text(event.value("last", 0.0));
  const std::size_t date = first.find(' ') + 1;
  return !with_date && last.starts_with(first.substr(0, date)) ? last.substr(date) : last;
}

void print_gone(const Json& qp, const Output& out) {
  out.print("queue pair " + cell(qp, "qpn") + " of tenant " + cell(qp, "tenant") + ", process " +
            cell(qp, "pid") + ": gone\n" + "failed " + clock_text(qp.value("failed", 0.0)) + ": " +
            cell(qp, "failure") + "\n");
  if (qp.contains("destination"))
    out.print("peer " + cell(qp, "destination") + ", queue pair " + cell(qp, "destination_qpn") +
              "\n");
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

void print_attributes(const Json& of, const Output& out) {
  if (of.contains("qkey")) out.print("Q_Key " + cell(of, "qkey") + "\n");
  if (of.contains("access"))
    out.print("access of the peer: " + access_text(of.at("access")) + "\n");
  if (!of.contains("timeout")) return;
  out.print("timeout " + cell(of, "timeout") + " (" + timeout_text(of.value("timeout", 0u)) +
            "), retries " + cell(of, "retry_count") + ", RNR retries " + cell(of, "rnr_retry") +
            (of.value("rnr_retry", 0) == 7 ? " (no limit)" : "") + ", RNR timer " +
            cell(of, "min_rnr_timer") + "; reads and atomics: " + cell(of, "max_rd_atomic") +
            " out, " + cell(of, "max_dest_rd_atomic") + " in\n");
}

void print_one(const Json& qp, const Output& out) {
  out.print("queue pair " + cell(qp, "qpn") + " of tenant " + cell(qp, "tenant") + ", process " +
            cell(qp, "pid") + ": " + cell(qp, "type") + ", " + cell(qp, "state") + " since " +
            clock_text(qp.value("state_since", 0.0)) + "\n");
  if (qp.contains("failure")) out.print("failed: " + cell(qp, "failure") + "\n");
  out.print(peer_text(qp) + "MTU " + cell(qp, "mtu") + ", TVL " + cell(qp, "tvl") +
            (qp.contains("level") ? ", level " + cell(qp, "level") : "") +
            (qp.contains("srq") ? ", shared receive queue " + cell(qp, "srq") : "") + "\n");
  print_attributes(qp.value("attributes", Json::object()), out);
  const auto waiting = qp.value("commands", 0u) - qp.value("started", 0u);
  out.print("commands: " + cell(qp, "started") + " started, " + std::to_string(waiting) +
            " waiting; sent again: " + cell(qp, "retransmitted_packets") + " packets, by " +
            cell(qp, "timeouts") + " timeouts, " + cell(qp, "early_retries") + " early retries, " +
            cell(qp, "rnr_naks_received") + " RNR NAKs, " + cell(qp, "sequence_naks_received") +
            " sequence NAKs\n");
}

void print_events(const Json& events, const Output& out) {
  if (events.empty()) return out.print("\nno events so far\n");
  TextTable table({"TIME", "UNTIL", "TIMES", "PSN", "EVENT"});
  for (const Json& event : events)
    table.add({clock_text(event.value("time", 0.0)),
               event.contains("last") ? until_text(event, out.is_wide()) : "-",
               cell(event, "count"), cell(event, "psn"), cell(event, "text")});
  out.section(table);
}

}  // namespace

void show_queue_pair(AdminClient& daemon, std::uint32_t qpn, Output& out) {
  const Json qp = daemon.read("qp.show", {{"qpn", qpn}});
  if (out.document(qp)) return;
  qp.value("gone", false) ? print_gone(qp, out) : print_one(qp, out);
  print_events(qp.at("events"), out);
}

}  // namespace softhca::cli
