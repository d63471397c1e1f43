// SPDX-License-Identifier: Apache-2.0

// revisions, diff, rollback and saved drop.
#include "cli/ctl_commands.hpp"
#include "cli/ctl_text.hpp"

namespace softhca::cli {
namespace {

/// Returns "tenant sea (process 4711, softhcactl, uid 1000)".
std::string who(const Json& revision) {
  std::string text = revision.contains("tenant") ? "tenant " + cell(revision, "tenant") : "";
  if (!revision.contains("pid")) return text;
  text += (text.empty() ? "process " : " (process ") + cell(revision, "pid");
  if (revision.contains("comm")) text += ", " + cell(revision, "comm");
  text += ", uid " + cell(revision, "uid");
  return text + (revision.contains("tenant") ? ")" : "");
}

void print_revision(const Json& revision) {
  const std::string by = who(revision);
  print(cell(revision, "number") + "  " + clock_text(revision.value("time", 0.0)) + "  " +
        cell(revision, "cause") + (by.empty() ? "" : " by " + by) + "\n");
  for (const Json& change : revision.at("changes")) print("    " + cell(change, "text") + "\n");
  if (revision.contains("more")) print("    and " + cell(revision, "more") + " more\n");
}

/// Returns "sea/high.tvl0 weight=3".
std::string request_text(const Json& change) {
  std::string text = cell(change, "tenant");
  if (change.contains("level")) text += "/" + cell(change, "level");
  if (change.contains("tvl")) text += ".tvl" + cell(change, "tvl");
  const Json& amount = change.at("amount");
  return text + " " + cell(change, "resource") + "=" +
         (amount.is_string() ? amount.get<std::string>() : amount.dump());
}

void print_saved(const Json& result) {
  for (const Json& request : result.at("saved")) {
    std::string line = "saved request " + cell(request, "number") + ":";
    for (const Json& change : request.at("changes")) line += " " + request_text(change);
    print(line + "\n");
    if (request.contains("left_out"))
      print("    not in force: " + cell(request, "left_out") + "\n");
  }
  for (const Json& tenant : result.value("tenants_on_demand", Json::array())) {
    print("tenant " + cell(tenant, "name") + " was made on demand from template " +
          cell(tenant, "template") + (tenant.value("saved", false) ? ", saved" : "") + "\n");
    if (tenant.contains("left_out")) print("    not in force: " + cell(tenant, "left_out") + "\n");
  }
  if (result.contains("saved_problem"))
    print("no saved request is in force: " + cell(result, "saved_problem") + "\n");
}

}  // namespace

void show_revisions(AdminClient& daemon, bool json) {
  const Json result = daemon.whole_list("revisions", "");
  if (json) return print_json(result);
  for (const Json& revision : result.at("revisions")) print_revision(revision);
}

void show_difference(AdminClient& daemon, bool json) {
  const Json result = daemon.call("diff");
  if (json) return print_json(result);
  if (result.at("changes").empty()) print("the configuration in force is that of the file\n");
  for (const Json& change : result.at("changes")) print(cell(change, "text") + "\n");
  print_saved(result);
}

void drop_saved(AdminClient& daemon, const std::vector<std::uint64_t>& numbers, bool json) {
  Json params = Json::object();
  if (numbers.empty())
    params["all"] = true;
  else
    params["numbers"] = numbers;
  const Json result = daemon.call("saved.drop", params);
  if (json) return print_json(result);
  print_saved(result);
}

void roll_back(AdminClient& daemon, std::uint64_t revision, bool json) {
  const Json result = daemon.call("rollback", {{"revision", revision}});
  if (json) return print_json(result);
  print_changes(result);
}

}  // namespace softhca::cli
