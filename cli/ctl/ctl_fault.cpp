// SPDX-License-Identifier: Apache-2.0

// fault: faults that the daemon injects (loss, delay and others), for tests of programs.
#include <cstdio>

#include "cli/ctl/ctl_commands.hpp"
#include "cli/ctl/ctl_output.hpp"

namespace softhca::cli {
namespace {

std::string number_text(const Json& fault, const char* key) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", fault.value(key, 0.0));
  return text;
}

std::string fault_target(const Json& fault) {
  std::string text;
  for (const auto& [key, name] :
       {std::pair{"tenant", "tenant "}, {"port", "port "}, {"qpn", "qp "}})
    if (fault.contains(key))
      text += (text.empty() ? "" : ", ") + std::string(name) + cell(fault, key);
  if (fault.value("direction", "both") != "both") text += ", " + cell(fault, "direction");
  return text;
}

std::string chance_of(const Json& fault) {
  return fault.contains("every") ? "1 in " + cell(fault, "every")
                                 : "p = " + number_text(fault, "probability");
}

std::string effect_of(const Json& fault) {
  std::string text;
  if (fault.contains("by")) text += "behind " + cell(fault, "by") + " later ones, at most ";
  if (fault.contains("delay_s")) text += number_text(fault, "delay_s") + " s";
  if (fault.contains("jitter_s")) text += " + 0 to " + number_text(fault, "jitter_s") + " s";
  return text.empty() ? "-" : text;
}

std::string injected_of(const Json& fault) {
  return cell(fault, "injected") + (fault.contains("count") ? "/" + cell(fault, "count") : "");
}

}  // namespace

void print_faults(const Json& faults, const Output& out) {
  TextTable table({"FAULT", "KIND", "TARGET", "WHICH", "ENDS-IN", "MATCHED", "AFFECTED", "EFFECT"});
  for (const Json& fault : faults)
    table.add({cell(fault, "number"), cell(fault, "kind"), fault_target(fault), chance_of(fault),
               duration_text(fault.value("left_s", 0.0)), out.count(fault, "met"),
               injected_of(fault), effect_of(fault)});
  out.print(table);
}

Json fault_of(const FaultOptions& options) {
  Json params = {{"kind", options.kind}};
  const auto add_text = [&](const char* key, const std::string& value) {
    if (!value.empty()) params[key] = value;
  };
  const auto add_number = [&](const char* key, const auto& value) {
    if (value) params[key] = *value;
  };
  add_text("tenant", options.tenant);
  add_text("port", options.port);
  add_text("direction", options.direction);
  add_number("qpn", options.qpn);
  add_number("probability", options.probability);
  add_number("every", options.every);
  add_number("count", options.count);
  add_number("seed", options.seed);
  add_number("delay_s", options.delay);
  add_number("jitter_s", options.jitter);
  add_number("by", options.by);
  add_number("for_s", options.seconds);
  return params;
}

void add_fault(AdminClient& daemon, const FaultOptions& options, Output& out) {
  const Json fault = daemon.call("fault.add", fault_of(options));
  if (out.document(fault)) return;
  out.print("fault " + cell(fault, "number") + ": " + cell(fault, "kind") + ", ends in " +
            duration_text(fault.value("left_s", 0.0)) + "\n");
}

void show_faults(AdminClient& daemon, Output& out) {
  const Json told = daemon.read("faults");
  if (out.document(told)) return;
  if (told.at("faults").empty()) return out.print("no faults are injected\n");
  print_faults(told.at("faults"), out);
}

void remove_faults(AdminClient& daemon, const std::vector<std::uint64_t>& numbers, bool all,
                   Output& out) {
  Json params = Json::object();
  if (all) params["all"] = true;
  if (!numbers.empty()) params["numbers"] = numbers;
  const Json told = daemon.call("fault.remove", params);
  if (out.document(told)) return;
  for (const Json& number : told.at("removed")) out.print("removed: fault " + number.dump() + "\n");
}

}  // namespace softhca::cli
