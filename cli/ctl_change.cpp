// SPDX-License-Identifier: Apache-2.0

// set, qp set and reload.
#include <charconv>
#include <cstdio>
#include <string_view>

#include "abi/quantity.hpp"
#include "cli/ctl_commands.hpp"
#include "cli/ctl_text.hpp"

namespace softhca::cli {
namespace {

[[noreturn]] void usage(const std::string& message) { throw CommandError(kUsage, message); }

bool read_number(std::string_view text, std::uint64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size();
}

std::uint64_t number_of(std::string_view text, std::string_view word) {
  const auto value = abi::parse_quantity(text);
  if (value && text.ends_with("bit") && word.find("bytes") == std::string_view::npos)
    usage(std::string(word) + ": only bytes and bytes per second take units of bits");
  if (!value) usage(std::string(word) + ": the value must be a number, such as 300, 64K or 10Gbit");
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

/// Returns "40..128": guaranteed and ceiling, before and after.
std::string amount_text(const Json& before, const Json& after, const char* key) {
  const auto text = [&](const Json& share) {
    return cell(share.at(key), "guaranteed") + ".." + cell(share.at(key), "ceiling");
  };
  return changed_text(text(before), text(after));
}

std::string weight_text(const Json& share) {
  return cell(share, "weight") + "/" + cell(share, "weights");
}

std::string engine_text(const Json& share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share.at("engine").get<double>());
  return text;
}

}  // namespace

/// Parses "300", "64K", "10Gbit" (abi/quantity.hpp); "true", "false", "1.5"; for some keys, words.
Json value_of(std::string_view key, std::string_view text, std::string_view word) {
  if (text.empty()) usage(std::string(word) + ": the value is missing");
  if (text == "true" || text == "false") return text == "true";
  if (key == "shared" || key == "srq.statistical")
    usage(std::string(word) + ": the value must be true or false");
  if (key == "share" || key == "class" || key == "srq.kind" || key == "srq.on_exceed") return text;
  if (text.find('.') == std::string_view::npos) return number_of(text, word);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size())
    usage(std::string(word) + ": the value must be a number, such as 300, 64K or 1.5");
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
    change["amount"] = value_of(std::string_view(word).substr(0, equals),
                                std::string_view(word).substr(equals + 1), word);
    changes.push_back(std::move(change));
    used = true;
  }
  if (!used) usage("no KEY=VALUE given for " + last + ", such as pcbs=300");
  return Json{{"changes", std::move(changes)}};
}

void set_allocations(AdminClient& daemon, const std::vector<std::string>& words, bool save,
                     bool json) {
  Json params = changes_of(words);
  if (save) params["save"] = true;
  const Json result = daemon.call("set", params);
  if (json) return print_json(result);
  print_changes(result);
}

void plan_allocations(AdminClient& daemon, const std::vector<std::string>& words, bool json) {
  Json params = changes_of(words);
  params["dry_run"] = true;
  const Json result = daemon.call("set", params);
  if (json) return print_json(result);
  print_changes(result);
  TextTable table({"TENANT", "VCBS", "PCBS", "TVLS", "EXECUTION-CREDITS", "COMPLETION-CREDITS",
                   "WEIGHT", "ENGINE"});
  for (const Json& share : result.at("shares")) {
    const Json& before = share.at("before");
    const Json& after = share.at("after");
    std::string name = cell(share, "tenant");
    if (share.contains("level")) name += "/" + cell(share, "level");
    table.add({name, amount_text(before, after, "vcbs"), amount_text(before, after, "pcbs"),
               amount_text(before, after, "tvls"), amount_text(before, after, "execution_credits"),
               amount_text(before, after, "completion_credits"),
               changed_text(weight_text(before), weight_text(after)),
               changed_text(engine_text(before), engine_text(after))});
  }
  print("\nGuarantee..ceiling; weight/sum of weights; share of the engine while all have work:\n" +
        table.text());
}

/// True if a queue pair has this key.
bool is_term(std::string_view key) {
  constexpr std::string_view kOthers[] = {"srq_limit", "importance", "min_bytes_per_second"};
  constexpr std::string_view kRateKeys[] = {"bytes_per_second", "burst_bytes",
                                            "messages_per_second", "burst_messages"};
  const auto is_one_of = [&](const auto& keys) {
    return std::find(std::begin(keys), std::end(keys), key) != std::end(keys);
  };
  if (is_one_of(kOthers)) return true;
  for (const std::string_view table : {"inbound_rate.", "served_rate."})
    if (key.starts_with(table)) {
      key.remove_prefix(table.size());
      break;
    }
  return is_one_of(kRateKeys);
}

Json terms_of(std::uint32_t qpn, const std::vector<std::string>& words) {
  Json terms{{"qpn", qpn}};
  for (const std::string& word : words) {
    const std::size_t equals = word.find('=');
    const std::string key = word.substr(0, equals);
    if (equals == std::string::npos || !is_term(key))
      usage(word +
            ": give srq_limit=N, importance=N, min_bytes_per_second=N, bytes_per_second=N, "
            "burst_bytes=N, messages_per_second=N or burst_messages=N; the last four also for "
            "inbound_rate and served_rate, such as inbound_rate.bytes_per_second=N");
    const std::string_view value = std::string_view(word).substr(equals + 1);
    terms[key] = value == "policy" ? Json() : Json(number_of(value, word));
  }
  return terms;
}

void set_queue_pair(AdminClient& daemon, std::uint32_t qpn, const std::vector<std::string>& words,
                    bool json) {
  const Json result = daemon.call("qp.set", terms_of(qpn, words));
  if (json) print_json(result);
}

void reload(AdminClient& daemon, bool dry_run, bool json) {
  const Json result = daemon.call(dry_run ? "reload.plan" : "reload");
  // The exit code of a dry run tells whether the reload would be refused.
  const bool refused = dry_run && !result.value("accepted", true);
  if (json && !refused) return print_json(result);
  if (!json) print_changes(result);
  if (refused) throw CommandError(kRefused, "this reload would be refused", result);
}

}  // namespace softhca::cli
