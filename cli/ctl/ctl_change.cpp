// SPDX-License-Identifier: Apache-2.0

// set, qp set and reload.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <thread>

#include "abi/quantity.hpp"
#include "cli/ctl/ctl_commands.hpp"
#include "cli/ctl/ctl_output.hpp"

namespace softhca::cli {
namespace {

// The keeper gives a new adapter this long to start.
constexpr std::chrono::seconds kLongestUpgrade{70};
constexpr std::chrono::milliseconds kUpgradePoll{20};

[[noreturn]] void usage(const std::string& message) { throw CommandError(kUsage, message); }

bool read_number(std::string_view text, std::uint64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

std::uint64_t number_of(std::string_view text, std::string_view word) {
  const auto value = abi::parse_quantity(text);
  if (value && text.ends_with("bit") && word.find("bytes") == std::string_view::npos)
    usage(std::string(word) + ": only bytes and bytes per second take units of bits");
  if (!value)
    usage(std::string(word) + ": the value must be a whole number, such as 300, 64K or 10Gbit");
  return *value;
}

/// Parses "ocean", "ocean/high", "ocean.tvl2", "ocean/high.tvl0".
Json target_of(std::string_view word) {
  Json target = Json::object();
  std::string_view rest = word;
  if (const auto dot = rest.rfind(".tvl"); dot != std::string_view::npos) {
    std::uint64_t tvl = 0;
    if (!read_number(rest.substr(dot + 4), tvl))
      usage(std::string(word) + ": name a TVL by its number, such as .tvl0");
    target["tvl"] = tvl;
    rest = rest.substr(0, dot);
  }
  if (const auto slash = rest.find('/'); slash != std::string_view::npos) {
    if (slash + 1 == rest.size()) usage(std::string(word) + ": the name of the level is missing");
    target["level"] = rest.substr(slash + 1);
    rest = rest.substr(0, slash);
  }
  if (rest.empty()) usage(std::string(word) + ": the name of the tenant is missing");
  target["tenant"] = rest;
  return target;
}

/// Returns "40", or "40 -> 50".
std::string changed_text(const std::string& before, const std::string& after) {
  return before == after ? before : before + " -> " + after;
}

constexpr char kSharesTitle[] =
    "\nGuarantee..ceiling; weight/sum of weights; share of the engine if all have work:\n";
constexpr const char* kAmounts[] = {"vcbs", "pcbs", "tvls", "execution_credits",
                                    "completion_credits"};

/// Returns "40..128": guaranteed and ceiling.
std::string amount_text(const Json& share, const char* key) {
  return cell(share.at(key), "guaranteed") + ".." + cell(share.at(key), "ceiling");
}

std::string weight_text(const Json& share) {
  return cell(share, "weight") + "/" + cell(share, "weights");
}

std::string engine_text(const Json& share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share.at("engine").get<double>());
  return text;
}

std::string name_of(const Json& share) {
  return cell(share, "tenant") + (share.contains("level") ? "/" + cell(share, "level") : "");
}

/// Prints all that a tenant or level has, in one row.
void print_all_shares(const Json& shares, const Output& out) {
  TextTable table({"TENANT", "VCBS", "PCBS", "TVLS", "EXECUTION-CREDITS", "COMPLETION-CREDITS",
                   "WEIGHT", "ENGINE"});
  for (const Json& share : shares) {
    const Json& before = share.at("before");
    const Json& after = share.at("after");
    std::vector<std::string> row{name_of(share)};
    for (const char* const key : kAmounts)
      row.push_back(changed_text(amount_text(before, key), amount_text(after, key)));
    row.push_back(changed_text(weight_text(before), weight_text(after)));
    row.push_back(changed_text(engine_text(before), engine_text(after)));
    table.add(std::move(row));
  }
  out.print(kSharesTitle);
  out.print(table);
}

/// Prints a row for each amount that changes.
void print_changed_shares(const Json& shares, const Output& out) {
  TextTable table({"TENANT", "AMOUNT", "BEFORE", "AFTER"});
  for (const Json& share : shares) {
    const auto add = [&](const char* key, const std::string& before, const std::string& after) {
      if (before != after) table.add({name_of(share), key, before, after});
    };
    const Json& before = share.at("before");
    const Json& after = share.at("after");
    for (const char* const key : kAmounts)
      add(key, amount_text(before, key), amount_text(after, key));
    add("weight", weight_text(before), weight_text(after));
    add("engine", engine_text(before), engine_text(after));
  }
  if (table.empty()) return;
  out.print(kSharesTitle);
  out.print(table);
}

/// Returns how many restarts there were before.
std::uint64_t begin_upgrade(AdminClient& daemon, const std::string& library) {
  Json params = Json::object();
  if (!library.empty()) params["library"] = std::filesystem::absolute(library);
  const auto before = daemon.read("status").at("restarts").value("total", std::uint64_t{0});
  daemon.call("upgrade", params);
  return before;
}

}  // namespace

/// Parses "300", "64K", "10Gbit" (abi/quantity.hpp); "true", "false"; for some keys, words or
/// "1.5".
Json value_of(std::string_view key, std::string_view text, std::string_view word) {
  if (text.empty()) usage(std::string(word) + ": the value is missing");
  if (text == "true" || text == "false") return text == "true";
  if (key == "shared" || key == "srq.statistical")
    usage(std::string(word) + ": the value must be true or false");
  if (key == "share" || key == "class" || key == "srq.kind" || key == "srq.on_exceed") return text;
  if (key != "srq.overcommit") return number_of(text, word);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    usage(std::string(word) + ": the value must be a factor, such as 1.5");
  return value;
}

Json changes_of(const std::vector<std::string>& words) {
  Json changes = Json::array();
  Json target;
  std::string last;
  bool used = true;
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) {
      if (!used) break;
      target = target_of(word);
      last = word;
      used = false;
      continue;
    }
    if (target.is_null())
      usage("name the target before " + word + ": softhcactl set TENANT[/LEVEL][.tvlN] " + word);
    if (equals == 0) usage(word + ": the key is missing");
    Json change = target;
    change["resource"] = word.substr(0, equals);
    for (const Json& earlier : changes) {
      change["amount"] = earlier.at("amount");
      if (change == earlier) usage(word + ": the key is given twice for this target");
    }
    change["amount"] = value_of(std::string_view(word).substr(0, equals),
                                std::string_view(word).substr(equals + 1), word);
    changes.push_back(std::move(change));
    used = true;
  }
  if (!used) usage("no KEY=VALUE given for " + last + ", such as pcbs=300");
  return Json{{"changes", std::move(changes)}};
}

void set_allocations(AdminClient& daemon, const std::vector<std::string>& words, bool save,
                     Output& out) {
  Json params = changes_of(words);
  if (save) params["save"] = true;
  const Json result = daemon.call("set", params);
  if (out.document(result)) return;
  print_changes(result, out);
}

void plan_allocations(AdminClient& daemon, const std::vector<std::string>& words, Output& out) {
  Json params = changes_of(words);
  params["dry_run"] = true;
  const Json result = daemon.call("set", params);
  if (out.document(result)) return;
  print_changes(result, out);
  out.is_wide() ? print_all_shares(result.at("shares"), out)
                : print_changed_shares(result.at("shares"), out);
}

Json terms_of(std::uint32_t qpn, const std::vector<std::string>& words) {
  Json terms{{"qpn", qpn}};
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    const std::vector<std::string>& keys = keys_of("QP-KEY");
    if (equals == std::string::npos || std::find(keys.begin(), keys.end(), key) == keys.end())
      usage(word +
            ": give srq_limit=N, importance=N, min_bytes_per_second=N, bytes_per_second=N, "
            "burst_bytes=N, messages_per_second=N or burst_messages=N; the last four also for "
            "inbound_rate and served_rate, such as inbound_rate.bytes_per_second=N");
    if (terms.contains(key)) usage(word + ": the key is given twice");
    const std::string_view value = std::string_view(word).substr(equals + 1);
    terms[key] = value == "policy" ? Json() : Json(number_of(value, word));
  }
  return terms;
}

void set_queue_pair(AdminClient& daemon, std::uint32_t qpn, const std::vector<std::string>& words,
                    Output& out) {
  const Json result = daemon.call("qp.set", terms_of(qpn, words));
  out.document(result);
}

void set_port(AdminClient& daemon, const std::string& name, bool up, Output& out) {
  const Json port = daemon.call("port.set", {{"name", name}, {"up", up}});
  if (out.document(port)) return;
  out.print("port " + name + ": " + port_state(port) + "\n");
}

void reload(AdminClient& daemon, bool dry_run, Output& out) {
  const Json result = daemon.call(dry_run ? "reload.plan" : "reload");
  // The exit code of a dry run tells whether the reload would be refused.
  const bool refused = dry_run && !result.value("accepted", true);
  // The document of a refusal is that of its error.
  if (!out.is_document()) print_changes(result, out);
  if (!refused) out.document(result);
  if (refused) throw CommandError(kRefused, "this reload would be refused", result);
}

void upgrade(AdminClient& daemon, const std::string& library, Output& out) {
  using std::chrono::steady_clock;
  std::uint64_t before = 0;
  try {
    before = begin_upgrade(daemon, library);
  } catch (const Disconnected&) {  // another upgrade, or a crash
    daemon.reconnect();
    before = begin_upgrade(daemon, library);
  }
  for (const auto end = steady_clock::now() + kLongestUpgrade; steady_clock::now() < end;
       std::this_thread::sleep_for(kUpgradePoll)) {
    Json restarts;
    try {
      restarts = daemon.read("status").at("restarts");
    } catch (const CommandError& error) {
      if (error.code() != kUnreachable) throw;
      daemon.reconnect();
      continue;
    }
    if (restarts.contains("upgrade_refused"))
      throw CommandError(kRefused, "no upgrade: " + restarts["upgrade_refused"].get<std::string>(),
                         restarts);
    if (restarts.value("total", std::uint64_t{0}) == before) continue;
    const Json& last = restarts.at("last");
    const auto cause = last.value("cause", std::string());
    if (cause != "upgrade")
      throw CommandError(
          kRefused,
          (cause == "rollback" ? "the new adapter did not start; the one before serves again"
                               : "meanwhile the adapter was replaced after a " + cause) +
              std::string(". The log of the daemon says why"),
          restarts);
    if (out.document(last)) return;
    out.print("upgraded: version " + last.value("from", std::string("unknown")) + " -> " +
              last.value("to", std::string("unknown")) + "; " +
              std::to_string(std::lround(last.value("blackout_s", 0.0) * 1000)) +
              " ms without service\n");
    return;
  }
  throw CommandError(kUnreachable, "the daemon has not been upgraded within a minute");
}

void print_changes(const Json& result, const Output& out) {
  const Json changes = result.value("changes", Json::array());
  for (const Json& change : changes) out.print(change.value("text", "?") + "\n");
  if (changes.empty()) out.print("nothing to change\n");
  print_kept(result);
}

void print_kept(const Json& result) {
  for (const Json& line : result.value("kept", Json::array()))
    if (line.is_string()) std::fprintf(stderr, "%s\n", line.get<std::string>().c_str());
}

}  // namespace softhca::cli
