// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/schema/reader.hpp"

#include <algorithm>
#include <optional>

#include "abi/quantity.hpp"
#include "daemon/configuration/schema/removed_keys.hpp"

namespace softhca::configuration {
namespace {

std::string plain(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

void Problems::add(unsigned line, const std::string& key, const std::string& text) {
  problems_.push_back({line, key.empty() ? text : key + ": " + text});
}

std::string Problems::report(const std::string& filename) const {
  std::vector<Problem> sorted = problems_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Problem& a, const Problem& b) { return a.line < b.line; });
  std::string text;
  for (const Problem& problem : sorted) {
    if (!text.empty()) text += '\n';
    text += filename + ':' + std::to_string(problem.line) + ": " + problem.text;
  }
  return text;
}

Reader::Reader(const Value& value, std::string path, Problems& problems)
    : value_(value),
      table_(value.table() ? *value.table() : no_table_),
      path_(std::move(path)),
      problems_(problems) {
  if (!value.table())
    problems_.add(value.line, path_,
                  std::string("must be a table, [") + path_ + "], not " + value.type_name());
}

const Value* Reader::find(std::string_view key) {
  if (std::find(asked_.begin(), asked_.end(), key) == asked_.end()) asked_.push_back(key);
  return table_.find(key);
}

void Reader::boolean(std::string_view key, bool& target) {
  const Value* value = find(key);
  if (!value) return;
  if (const bool* given = std::get_if<bool>(&value->content))
    target = *given;
  else
    complain_type(key, *value, "true or false");
}

void Reader::number(std::string_view key, double& target, double least, double most) {
  const Value* value = find(key);
  if (!value) return;
  double given;
  if (const auto* real = std::get_if<double>(&value->content))
    given = *real;
  else if (const auto* integer = std::get_if<std::int64_t>(&value->content))
    given = static_cast<double>(*integer);
  else
    return complain_type(key, *value, "a number");
  if (given >= least && given <= most)  // false for a NaN
    target = given;
  else
    complain(key, "is " + plain(given) + ", must be from " + plain(least) + " to " + plain(most));
}

void Reader::string(std::string_view key, std::string& target) {
  const Value* value = find(key);
  if (!value) return;
  if (value->string())
    target = *value->string();
  else
    complain_type(key, *value, "a string");
}

bool Reader::integer(std::string_view key, std::uint64_t& target, std::uint64_t least,
                     std::uint64_t most, std::string_view hint) {
  const Value* value = find(key);
  if (!value) return false;
  const auto accept = [&](const std::string& given, std::optional<std::uint64_t> amount) {
    const bool good = amount && *amount >= least && *amount <= most;
    if (good)
      target = *amount;
    else
      complain(key, "is " + given + ", must be from " + std::to_string(least) + " to " +
                        std::to_string(most) + std::string(hint));
    return good;
  };
  const bool takes_units = key.find("bytes") != std::string_view::npos;
  if (const std::string* text = takes_units ? value->string() : nullptr; text != nullptr) {
    const auto amount = abi::parse_quantity(*text);
    if (amount) return accept('"' + *text + '"', amount);
    complain(key, "is \"" + *text +
                      "\", must be a number, alone or with a unit, such as \"64K\", " +
                      "\"100M\", \"2G\" or \"10Gbit\"");
    return false;
  }
  const auto* given = std::get_if<std::int64_t>(&value->content);
  if (!given) {
    complain_type(key, *value,
                  takes_units ? "an integer or a string such as \"100M\"" : "an integer");
    return false;
  }
  const bool negative = *given < 0;
  return accept(std::to_string(*given),
                negative ? std::nullopt : std::optional(static_cast<std::uint64_t>(*given)));
}

std::vector<const Value*> Reader::tables(std::string_view key) {
  std::vector<const Value*> result;
  const Value* value = find(key);
  if (!value) return result;
  const std::string wanted = "must be a list of tables, each begun by [[" + path_of(key) + "]]";
  if (!value->array()) {
    complain(key, wanted);
    return result;
  }
  for (const Value& element : *value->array()) {
    if (element.table())
      result.push_back(&element);
    else
      problems_.add(element.line, path_of(key), wanted);
  }
  return result;
}

std::vector<const Value*> Reader::strings(std::string_view key) {
  std::vector<const Value*> result;
  const Value* value = find(key);
  if (!value) return result;
  if (!value->array()) {
    complain_type(key, *value, "an array of strings, such as [\"...\"]");
    return result;
  }
  for (const Value& element : *value->array()) {
    if (element.string())
      result.push_back(&element);
    else
      problems_.add(element.line, path_of(key),
                    std::string("holds ") + element.type_name() + ", must hold strings only");
  }
  return result;
}

void Reader::finish() {
  for (const auto& [key, value] : table_.entries) {
    if (std::find(asked_.begin(), asked_.end(), key) != asked_.end()) continue;
    if (const auto removal = removal_of(path_, key)) {
      problems_.add(value.line, path_of(key), *removal + "; delete the line");
      continue;
    }
    std::string known;
    for (const std::string_view name : asked_) (known += known.empty() ? "" : ", ") += name;
    problems_.add(value.line, path_of(key), "is not a known key; known here: " + known);
  }
}

void Reader::complain(std::string_view key, const std::string& text) {
  const Value* value = table_.find(key);
  problems_.add(value ? value->line : value_.line, path_of(key), text);
}

void Reader::complain_type(std::string_view key, const Value& value, const char* wanted) {
  complain(key, std::string("must be ") + wanted + ", not " + value.type_name());
}

std::string Reader::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : path_ + '.' + std::string(key);
}

}  // namespace softhca::configuration
