#include "daemon/resource/document.hpp"

#include <optional>

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace softhca::resource {
namespace {

Value convert(const toml::node& node);

Table convert_table(const toml::table& table) {
  Table result;
  for (const auto& [key, node] : table)
    result.entries.emplace_back(std::string(key.str()), convert(node));
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
  const toml::parse_result result = toml::parse(text);
  if (!result) {
    const toml::parse_error& error = result.error();
    return Error{std::to_string(error.source().begin.line) + ": " +
                 std::string(error.description())};
  }
  return convert(result.table());
}

}  // namespace softhca::resource
