// Connections by rdma_cm, and the general services agent.
#include <cstdio>

#include "cli/ctl_commands.hpp"
#include "cli/ctl_text.hpp"

namespace softhca::cli {
namespace {

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

/// "12 over_quota, 3 exhausted"
std::string discarded_text(const Json& counts) {
  std::string text;
  for (const auto& [cause, count] : counts.items())
    if (count != 0) text += (text.empty() ? "" : ", ") + cell(counts, cause.c_str()) + " " + cause;
  return text.empty() ? "-" : text;
}

}  // namespace

void show_connections(AdminClient& daemon, const std::string& tenant, bool json) {
  const Json list = daemon.whole_list("connections", tenant);
  if (json) return print_json(list);
  TextTable table({"STATE", "ROLE", "TENANT", "LOCAL", "PEER", "SERVICE", "QPN", "PID", "COMMAND"});
  for (const Json& c : list.at("connections"))
    table.add({cell(c, "state"), cell(c, "role"), cell(c, "tenant"), cell(c, "local"),
               cell(c, "peer"), cell(c, "service_id"), cell(c, "qpn"), cell(c, "pid"),
               cell(c, "comm")});
  print(table.text());
}

void show_listeners(AdminClient& daemon, const std::string& tenant, bool json) {
  const Json list = daemon.whole_list("listeners", tenant);
  if (json) return print_json(list);
  TextTable table({"LOCAL", "SPACE", "TENANT", "WAITING", "BACKLOG", "PID", "COMMAND"});
  for (const Json& l : list.at("listeners"))
    table.add({cell(l, "local"), cell(l, "port_space"), cell(l, "tenant"), cell(l, "waiting"),
               cell(l, "backlog"), cell(l, "pid"), cell(l, "comm")});
  print(table.text());
}

void show_general_services(AdminClient& daemon, bool json) {
  const Json agent = daemon.call("gsa");
  if (json) return print_json(agent);
  const Json& buffers = agent.at("buffers");
  print("buffers: " + cell(buffers, "posted") + " posted (low " + cell(buffers, "low_threshold") +
        ", high " + cell(buffers, "high_threshold") + "), " + cell(buffers, "in_use") +
        " in use, limit " + cell(buffers, "limit") + "\n");
  print("datagrams: " + cell(agent, "received") + " received, " + cell(agent, "sent") +
        " sent, discarded " + discarded_text(agent.at("discarded")) + "; " +
        cell(agent, "over_share") + " beyond the share of the engine, " +
        cell(agent, "unresolved") + " to neighbours that did not answer\n\n");
  TextTable clients({"TENANT", "CLASS", "CLIENT", "ASKED", "QUOTA", "IN-USE", "HIGH-WATER",
                     "RECEIVED", "RAISED", "DISCARDED"});
  for (const Json& c : agent.at("clients"))
    clients.add({cell(c, "tenant"), cell(c, "class"), cell(c, "name"), cell(c, "asked"),
                 cell(c, "quota"), cell(c, "in_use"), cell(c, "in_use_high_water"),
                 cell(c, "received"), cell(c, "raised"), discarded_text(c.at("discarded"))});
  print(clients.text());
  if (agent.at("sources").empty()) return;
  TextTable sources({"SOURCE", "TENANT", "CLASS", "IN-USE", "RECENT", "RECEIVED", "DISCARDED"});
  for (const Json& s : agent.at("sources"))
    sources.add({cell(s, "source"), cell(s, "tenant"), cell(s, "class"), cell(s, "in_use"),
                 cell(s, "recent"), cell(s, "received"), cell(s, "discarded")});
  print("\n" + sources.text());
}

}  // namespace softhca::cli
