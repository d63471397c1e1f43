// SPDX-License-Identifier: Apache-2.0

// level: changes levels that a tenant makes itself.
#include <algorithm>
#include <charconv>

#include "cli/ctl/ctl_commands.hpp"
#include "cli/ctl/ctl_output.hpp"

namespace softhca::cli {
namespace {

[[noreturn]] void wrong_usage(const std::string& message) { throw CommandError(kUsage, message); }

/// Parses "/a.slice,/b.slice"; empty: no items.
Json list_of(std::string_view text) {
  Json list = Json::array();
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    if (!item.empty()) list.push_back(item);
    text.remove_prefix(std::min(text.size(), item.size() + 1));
  }
  return list;
}

/// Parses "3,4"; empty: no numbers.
Json numbers_of(std::string_view text, const std::string& word) {
  Json list = Json::array();
  for (const Json& item : list_of(text)) {
    const auto digits = item.get<std::string>();
    unsigned number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error != std::errc() || end != digits.data() + digits.size())
      wrong_usage(word + ": give whole numbers with commas between them");
    list.push_back(number);
  }
  return list;
}

void add_word(Json& params, const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos || equals == 0)
    wrong_usage(word + ": give KEY=VALUE, such as pcbs=10 or cgroups=/batch.slice");
  const std::string key = word.substr(0, equals);
  const std::string_view value = std::string_view(word).substr(equals + 1);
  if (params.contains(key)) wrong_usage(word + ": the key is given twice");
  if (key == "cgroups")
    params[key] = list_of(value);
  else if (key == "service_levels" || key == "traffic_classes")
    params[key] = numbers_of(value, word);
  else if (key == "dscp" && value == "tenant")
    params[key] = Json();
  else
    params[key] = value_of(key, value, word);
}

}  // namespace

Json level_of(const std::string& what, const std::vector<std::string>& words) {
  Json params = {{"level", words.front()}};
  if (what == "rename") {
    if (words.size() != 2) wrong_usage("level rename takes two names: the old and the new one");
    params["to"] = words.back();
    return params;
  }
  if (what == "remove" && words.size() != 1) wrong_usage("level remove takes one name");
  for (std::size_t i = 1; i < words.size(); ++i) add_word(params, words[i]);
  return params;
}

void change_level(AdminClient& daemon, const std::string& what,
                  const std::vector<std::string>& words, Output& out) {
  const Json result = daemon.call("level." + what, level_of(what, words));
  if (out.document(result)) return;
  print_changes(result, out);
}

}  // namespace softhca::cli
