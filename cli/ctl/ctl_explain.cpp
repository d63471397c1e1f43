// SPDX-License-Identifier: Apache-2.0

// explain: shows where the time of a tenant's send commands goes, from the differences of the
// daemon's counters.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "cli/ctl/ctl_commands.hpp"
#include "cli/ctl/ctl_output.hpp"
#include "cli/ctl/engine_processor.hpp"

namespace softhca::cli {
namespace {

using namespace nlohmann::literals;

// Above this share of the engine's work, a tenant waits only for turns of its own.
constexpr double kNearlyAll = 0.9;

Json question_of(const std::string& who) {
  const auto slash = who.find('/');
  Json question = {{"name", who.substr(0, slash)}};
  if (slash != std::string::npos) question["level"] = who.substr(slash + 1);
  return question;
}

/// Returns by how much a number has grown. A smaller number belongs to another tenant of the same
/// name.
double grown(const Json& before, const Json& now, const std::string& pointer) {
  const Json::json_pointer at(pointer);
  const double old = before.is_null() ? 0 : before.value(at, 0.0);
  return std::max(now.value(at, 0.0) - old, 0.0);
}

std::string text_of(double number, const char* format, const char* unit = "") {
  char text[48];
  std::snprintf(text, sizeof text, format, number);
  return std::string(text) + unit;
}

std::string time_text(double seconds) {
  if (seconds < 1e-3) return text_of(seconds * 1e6, "%.1f", " us");
  if (seconds < 1) return text_of(seconds * 1e3, "%.1f", " ms");
  return text_of(seconds, "%.1f", " s");
}

/// Returns the document to show, from two answers of the daemon; `before` null: since the daemon's
/// start.
Json explanation_of(const Json& before, const Json& now) {
  const double seconds = std::max(grown(before, now, "/time_s"), 1e-3);
  const double commands = grown(before, now, "/commands");
  const double engine = grown(before, now, "/engine_s/all_tenants");
  double all = 0;
  Json causes = Json::array();
  for (std::size_t i = 0; i < now.at("causes").size(); ++i) {
    Json cause = now.at("causes").at(i);
    cause["seconds"] = grown(before, now, "/causes/" + std::to_string(i) + "/seconds");
    all += cause.value("seconds", 0.0);
    causes.push_back(std::move(cause));
  }
  for (Json& cause : causes) {
    const double time = cause.value("seconds", 0.0);
    cause["share"] = all > 0 ? time / all : 0;
    cause["waiting"] = time / seconds;
    cause["seconds_per_command"] = commands > 0 ? Json(time / commands) : Json();
  }
  std::stable_sort(causes.begin(), causes.end(), [](const Json& a, const Json& b) {
    return a.value("seconds", 0.0) > b.value("seconds", 0.0);
  });
  Json not_kept = Json::object();
  for (const auto& [name, time] : now.at("guarantees_not_kept_s").items())
    not_kept[name] = grown(before, now, "/guarantees_not_kept_s/" + name);
  Json out = {{"tenant", now.at("tenant")},
              {"seconds", seconds},
              {"commands", commands},
              {"waiting", all / seconds},
              {"seconds_per_command", commands > 0 ? Json(all / commands) : Json()},
              {"guarantees_not_kept_s", std::move(not_kept)},
              {"causes", std::move(causes)}};
  if (now.contains("level")) out["level"] = now.at("level");
  if (now.contains("engine_s"))
    out["engine_share"] = engine > 0 ? grown(before, now, "/engine_s/tenant") / engine : 0;
  if (now.contains("doorbells"))
    for (const auto& [name, count] : now.at("doorbells").items())
      out["doorbells"][name] = grown(before, now, "/doorbells/" + name);
  return out;
}

/// Sleeps for `seconds` and returns which of the tenant's processes shared the engine's processor
/// meanwhile. Null: this caller does not see the engine.
Json watch_engine_processor(AdminClient& daemon, const std::string& tenant, double seconds) {
  const auto time = std::chrono::duration<double>(seconds);
  const auto end = std::chrono::steady_clock::now() + time;
  Json seen;
  try {
    const auto adapter = daemon.read("status").at("adapter_pid").get<std::uint32_t>();
    seen = look_at_engine_processor(adapter, processes_of(daemon, tenant), time);
  } catch (const CommandError&) {  // a tenant does not see the daemon's status
  }
  std::this_thread::sleep_until(end);
  return seen;
}

void print_explanation(const Json& view, const Output& out) {
  const Json& each = view.at("seconds_per_command");
  std::string text =
      (view.contains("level") ? "level " + cell(view, "tenant") + "/" + cell(view, "level")
                              : "tenant " + cell(view, "tenant")) +
      ", over " + text_of(view.value("seconds", 0.0), "%.1f", " s: ") +
      short_number(view.value("commands", 0.0)) + " send commands, " +
      (each.is_null() ? std::string() : time_text(each.get<double>()) + " of waiting each, ") +
      text_of(view.value("waiting", 0.0), "%.3g", " waiting on average\n");
  if (view.contains("engine_share"))
    text += "its tenant had " + text_of(view.value("engine_share", 0.0) * 100, "%.0f",
                                        "% of the time that the engine worked for tenants\n");
  const double commands = view.value("commands", 0.0);
  const double rung = view.value("/doorbells/no_vcb"_json_pointer, 0.0);
  if (rung > 0 && commands > 0)
    text += "its processes had no free VCB for " +
            text_of(std::min(rung / commands, 1.0) * 100, "%.0f") +
            "% of these commands, and rang doorbells instead; raise vcbs_per_process or vcbs\n";
  for (const auto& [name, time] : view.at("guarantees_not_kept_s").items())
    if (time.get<double>() > 0)
      text += "guarantee not kept for " + time_text(time.get<double>()) + ": " + name + "\n";
  out.print(text);
  print_sharers(view.value("engine_processor", Json()), out);
  if (view.value("waiting", 0.0) <= 0) return out.print("no command waited\n");
  TextTable table({"CAUSE", "SHARE", "WAITING", "PER-COMMAND", "SETTING"});
  std::string help;
  for (const Json& cause : view.at("causes")) {
    const double share = cause.value("share", 0.0);
    if (share <= 0) break;
    const std::string name = cell(cause, "cause"), setting = cell(cause, "setting");
    const Json& time = cause.at("seconds_per_command");
    table.add(
        {name, text_of(share * 100, "%.1f", "%"), text_of(cause.value("waiting", 0.0), "%.3g"),
         time.is_null() ? "-" : time_text(time.get<double>()), setting.empty() ? "-" : setting});
    const bool own = name == "engine" && view.value("engine_share", 0.0) >= kNearlyAll;
    help += name + ": " +
            (own ? "the engine spends nearly all its time on the tenant's own commands; no setting "
                   "gives it more"
                 : cell(cause, "help")) +
            "\n";
  }
  out.section(table);
  out.print("\n" + help);
}

}  // namespace

void explain(AdminClient& daemon, const ExplainOptions& options, Output& out) {
  const Json question = question_of(options.who);
  Json before, engine_processor;
  if (!options.total) {
    before = daemon.read("explain", question);
    engine_processor = watch_engine_processor(daemon, question.at("name"), options.interval);
  }
  Json view = explanation_of(before, daemon.read("explain", question));
  if (!engine_processor.is_null()) view["engine_processor"] = std::move(engine_processor);
  if (!out.document(view)) print_explanation(view, out);
}

}  // namespace softhca::cli
