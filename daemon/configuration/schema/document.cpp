// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/schema/document.hpp"

#include <algorithm>
#include <optional>

#include "daemon/configuration/schema/text_rules.hpp"

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
// The library asserts conditions (with NDEBUG: assumes them) that some malformed documents break,
// and rejects these documents itself a little later.
#undef NDEBUG
#define TOML_ASSERT(expr) static_cast<void>(0)
#include <toml++/toml.h>

namespace softhca::configuration {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;
// More than any key needs. The library parses recursively, and aborts the process by an assertion
// if a table's header has no name.
constexpr unsigned kMostNesting = 32;
constexpr unsigned kMostDots = 32;

/// Checks a document before the library parses it, and finds input that the library does not
/// survive.
class Precheck {
 public:
  explicit Precheck(std::string_view text) : rest_(text) {}

  Outcome run() {
    while (!rest_.empty())
      if (const char* wrong = step()) return Error{std::to_string(line_) + ": " + wrong};
    return {};
  }

 private:
  /// Checks the next part. Returns null, or the error.
  const char* step() {
    const char c = rest_.front();
    if (c == '#') {
      rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
      return nullptr;
    }
    if (c == '"' || c == '\'') {
      skip_string(c);
      return nullptr;
    }
    // TOML allows only ASCII here. The library's tables of letters have positions that it declares
    // unreachable.
    if (static_cast<unsigned char>(c) >= 0x80)
      return "a character that is allowed only in strings and comments";
    if (nesting_ == 0 && starts_line_ && c == '[' &&
        !names_a_key(rest_.substr(rest_.starts_with("[[") ? 2 : 1)))
      return "a table without a name";
    count(c);
    if (nesting_ > kMostNesting || dots_ > kMostDots) return "too deeply nested";
    rest_.remove_prefix(1);
    return nullptr;
  }

  void count(char c) {
    if (c == '[' || c == '{') ++nesting_;
    if ((c == ']' || c == '}') && nesting_ > 0) --nesting_;
    if (c == '.') ++dots_;
    if (c == '=' || c == ',' || c == '[' || c == '{' || c == '\n') dots_ = 0;
    if (c == '\n') {
      ++line_;
      starts_line_ = true;
    } else if (!is_control(c) && c != ' ') {
      starts_line_ = false;
    }
  }

  static bool names_a_key(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
    if (text.empty()) return false;
    const char c = text.front();
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '"' || c == '\'';
  }

  /// Skips to the end of a string, or to the position at which the library finds that it has no
  /// end.
  void skip_string(char quote) {
    starts_line_ = false;
    const std::string three(3, quote);
    const bool block = rest_.starts_with(three);
    const std::size_t quotes = block ? 3 : 1;
    rest_.remove_prefix(quotes);
    while (!rest_.empty() && !(block ? rest_.starts_with(three) : rest_.front() == quote)) {
      if (rest_.front() == '\n') {
        if (!block) return;
        ++line_;
      }
      const bool escape =
          quote == '"' && rest_.front() == '\\' && !rest_.substr(1).starts_with('\n');
      rest_.remove_prefix(std::min<std::size_t>(escape ? 2 : 1, rest_.size()));
    }
    rest_.remove_prefix(std::min(quotes, rest_.size()));
  }

  std::string_view rest_;
  unsigned line_ = 1;
  unsigned nesting_ = 0;
  unsigned dots_ = 0;
  bool starts_line_ = true;
};

Value convert(const toml::node& node);

Table convert_table(const toml::table& table) {
  Table result;
  for (const auto& [key, node] : table)
    result.entries.push_back({std::string(key.str()), convert(node)});
  return result;
}

Array convert_array(const toml::array& array) {
  Array result;
  for (const toml::node& node : array) result.push_back(convert(node));
  return result;
}

Value convert(const toml::node& node) {
  Value value;
  value.line = node.source().begin.line;
  if (const auto* table = node.as_table())
    value.content = convert_table(*table);
  else if (const auto* array = node.as_array())
    value.content = convert_array(*array);
  else if (const auto* boolean = node.as_boolean())
    value.content = boolean->get();
  else if (const auto* integer = node.as_integer())
    value.content = integer->get();
  else if (const auto* real = node.as_floating_point())
    value.content = real->get();
  else if (const auto* string = node.as_string())
    value.content = string->get();
  return value;
}

}  // namespace

const Value* Table::find(std::string_view key) const {
  for (const auto& [name, value] : entries)
    if (name == key) return &value;
  return nullptr;
}

const char* Value::type_name() const {
  static constexpr const char* kNames[] = {"a date or time", "a boolean", "an integer", "a number",
                                           "a string",       "an array",  "a table"};
  static_assert(std::size(kNames) == std::variant_size_v<decltype(content)>);
  return kNames[content.index()];
}

Expected<Value> parse_document(std::string_view text) {
  if (text.size() > kMostBytes) return Error{"1: longer than 1 MiB"};
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  if (const auto passed = Precheck(text).run(); !passed) return passed.error();
  const toml::parse_result result = toml::parse(text);
  if (!result) {
    const toml::parse_error& error = result.error();
    std::string what(error.description());  // quotes the document, possibly with an end of line
    std::replace_if(what.begin(), what.end(), is_control, ' ');
    return Error{std::to_string(error.source().begin.line) + ": " + what};
  }
  return convert(result.table());
}

}  // namespace softhca::configuration
