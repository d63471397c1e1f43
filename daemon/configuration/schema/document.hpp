// SPDX-License-Identifier: Apache-2.0

// A TOML document as plain values with their line numbers. This keeps the TOML library, which is
// slow to compile, in one translation unit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "daemon/base/expected.hpp"

namespace softhca::configuration {

struct Value;
struct Entry;

struct Table {
  std::vector<Entry> entries;

  /// Returns the value of the key; null if the table does not have it.
  const Value* find(std::string_view key) const;
};

using Array = std::vector<Value>;

/// Dates and times, which no configuration key uses.
struct OtherValue {};

struct Value {
  std::variant<OtherValue, bool, std::int64_t, double, std::string, Array, Table> content;
  unsigned line = 0;  ///< from 1

  const Table* table() const { return std::get_if<Table>(&content); }
  const Array* array() const { return std::get_if<Array>(&content); }
  const std::string* string() const { return std::get_if<std::string>(&content); }
  /// Returns "a string", "a table", ... for messages.
  const char* type_name() const;
};

struct Entry {
  std::string key;
  Value value;
};

/// Parses a document. The error message is "line: text"; the caller puts the file's name before it.
Expected<Value> parse_document(std::string_view text);

}  // namespace softhca::configuration
