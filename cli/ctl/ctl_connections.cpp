// SPDX-License-Identifier: Apache-2.0

// Shows connections by rdma_cm, and the general services agent.
#include <cstdio>

#include "cli/ctl/ctl_commands.hpp"
#include "cli/ctl/ctl_output.hpp"

namespace softhca::cli {
namespace {

/// Returns "12 over_quota, 3 exhausted".
std::string discarded_text(const Json& counts) {
  std::string text;
  for (const auto& [cause, count] : counts.items())
    if (count != 0) text += (text.empty() ? "" : ", ") + cell(counts, cause.c_str()) + " " + cause;
  return text.empty() ? "-" : text;
}

/// Formats management classes as hexadecimal numbers.
void write_classes(Json& entries) {
  for (Json& entry : entries) {
    char text[8];
    std::snprintf(text, sizeof text, "0x%02x", entry.at("class").get<unsigned>());
    entry["class"] = text;
  }
}

/// Prints a queue pair and its clients. `titles` and `keys`: the columns that identify a client,
/// and the members of its object in these columns.
void print_services(const Json& services, const std::vector<const char*>& titles,
                    const std::vector<const char*>& keys, const Output& out) {
  const Json& buffers = services.at("buffers");
  out.print("buffers: " + cell(buffers, "posted") + " posted (low " +
            cell(buffers, "low_threshold") + ", high " + cell(buffers, "high_threshold") + "), " +
            cell(buffers, "in_use") + " in use, limit " + cell(buffers, "limit") + "\n");
  out.print("datagrams: " + cell(services, "received") + " received, " + cell(services, "sent") +
            " sent, discarded " + discarded_text(services.at("discarded")) + "; " +
            cell(services, "over_share") + " beyond the share of the engine, " +
            cell(services, "unresolved") + " to neighbours that did not answer\n");
  const auto row = [&](const Json& of, std::vector<std::string> rest) {
    std::vector<std::string> cells;
    for (const char* key : keys) cells.push_back(cell(of, key));
    cells.insert(cells.end(), rest.begin(), rest.end());
    return cells;
  };
  const auto heading = [&](std::vector<Column> rest) {
    rest.insert(rest.begin(), titles.begin(), titles.end());
    return rest;
  };
  constexpr unsigned kWide = Column::kWide;
  TextTable clients(heading({"CLIENT",
                             {"ASKED", kWide},
                             "QUOTA",
                             "IN-USE",
                             {"HIGH-WATER", kWide},
                             "RECEIVED",
                             {"RAISED", kWide},
                             {"DISCARDED", Column::kAlarm}}));
  for (const Json& c : services.at("clients"))
    clients.add(row(c, {cell(c, "name"), cell(c, "asked"), cell(c, "quota"), cell(c, "in_use"),
                        cell(c, "in_use_high_water"), out.count(c, "received"), cell(c, "raised"),
                        discarded_text(c.at("discarded"))}));
  if (!clients.empty()) out.section(clients);
  TextTable sources(
      heading({"SOURCE", "IN-USE", "RECENT", "RECEIVED", {"DISCARDED", Column::kAlarm}}));
  for (const Json& s : services.at("sources"))
    sources.add(row(s, {cell(s, "source"), cell(s, "in_use"), cell(s, "recent"),
                        out.count(s, "received"), cell(s, "discarded")}));
  if (!sources.empty()) out.section(sources);
}

}  // namespace

void show_connections(AdminClient& daemon, const Filter& filter, Output& out) {
  const Json list = filtered_list(daemon, "connections", filter);
  if (out.document(list)) return;
  TextTable table({"STATE",
                   "ROLE",
                   "TENANT",
                   "LOCAL",
                   "PEER",
                   {"SERVICE", Column::kWide},
                   {"QPN", Column::kWide},
                   "PID",
                   "COMMAND"});
  for (const Json& c : list.at("connections"))
    table.add({cell(c, "state"), cell(c, "role"), cell(c, "tenant"), cell(c, "local"),
               cell(c, "peer"), cell(c, "service_id"), cell(c, "qpn"), cell(c, "pid"),
               cell(c, "comm")});
  out.print(table);
}

void show_listeners(AdminClient& daemon, const Filter& filter, Output& out) {
  const Json list = filtered_list(daemon, "listeners", filter);
  if (out.document(list)) return;
  TextTable table({"LOCAL", "SPACE", "TENANT", "WAITING", "BACKLOG", "PID", "COMMAND"});
  for (const Json& l : list.at("listeners"))
    table.add({cell(l, "local"), cell(l, "port_space"), cell(l, "tenant"), cell(l, "waiting"),
               cell(l, "backlog"), cell(l, "pid"), cell(l, "comm")});
  out.print(table);
}

void show_general_services(AdminClient& daemon, Output& out) {
  Json agent = daemon.read("gsa");
  if (out.document(agent)) return;
  for (const char* entries : {"clients", "sources"}) write_classes(agent.at(entries));
  print_services(agent, {"TENANT", "CLASS", "MESSAGES"}, {"tenant", "class", "messages"}, out);
  out.print("\nqueue pair 2, between programs\n");
  print_services(agent.at("shared"), {"TENANT", "NUMBER"}, {"tenant", "number"}, out);
}

}  // namespace softhca::cli
