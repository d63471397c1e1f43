// SPDX-License-Identifier: Apache-2.0

// revisions, diff, rollback and saved drop.
#include "cli/ctl/ctl_commands.hpp"
#include "cli/ctl/ctl_output.hpp"

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

void print_revision(const Json& revision, const Output& out) {
  const std::string by = who(revision);
  out.print(cell(revision, "number") + "  " + clock_text(revision.value("time", 0.0)) + "  " +
            cell(revision, "cause") + (by.empty() ? "" : " by " + by) + "\n");
  for (const Json& change : revision.at("changes")) out.print("    " + cell(change, "text") + "\n");
  if (revision.contains("more")) out.print("    and " + cell(revision, "more") + " more\n");
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

void print_saved(const Json& result, const Output& out) {
  for (const Json& request : result.at("saved")) {
    std::string line = "saved request " + cell(request, "number") + ":";
    for (const Json& change : request.at("changes")) line += " " + request_text(change);
    out.print(line + "\n");
    if (request.contains("left_out"))
      out.print("    not in force: " + cell(request, "left_out") + "\n");
  }
  for (const Json& tenant : result.value("tenants_on_demand", Json::array())) {
    out.print("tenant " + cell(tenant, "name") + " was made on demand from template " +
              cell(tenant, "template") + (tenant.value("saved", false) ? ", saved" : "") + "\n");
    if (tenant.contains("left_out"))
      out.print("    not in force: " + cell(tenant, "left_out") + "\n");
  }
  if (result.contains("saved_problem"))
    out.print("no saved request is in force: " + cell(result, "saved_problem") + "\n");
}

}  // namespace

void show_revisions(AdminClient& daemon, Output& out) {
  const Json result = daemon.whole_list("revisions", "");
  if (out.document(result)) return;
  for (const Json& revision : result.at("revisions")) print_revision(revision, out);
}

void show_difference(AdminClient& daemon, Output& out) {
  const Json result = daemon.read("diff");
  if (out.document(result)) return;
  if (result.at("changes").empty()) out.print("the configuration in force is that of the file\n");
  for (const Json& change : result.at("changes")) out.print(cell(change, "text") + "\n");
  print_saved(result, out);
}

void drop_saved(AdminClient& daemon, const std::vector<std::uint64_t>& numbers, Output& out) {
  Json params = Json::object();
  if (numbers.empty())
    params["all"] = true;
  else
    params["numbers"] = numbers;
  const Json result = daemon.call("saved.drop", params);
  if (out.document(result)) return;
  print_saved(result, out);
}

void roll_back(AdminClient& daemon, std::uint64_t revision, Output& out) {
  const Json result = daemon.call("rollback", {{"revision", revision}});
  if (out.document(result)) return;
  print_changes(result, out);
}

}  // namespace softhca::cli
