// SPDX-License-Identifier: Apache-2.0

// Reads the keys of one table of the configuration and records what is wrong with them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/configuration/schema/document.hpp"

namespace softhca::configuration {

/// All problems found so far.
class Problems {
 public:
  /// Adds a problem. `key` is the dotted path of the key. `text` says what is wrong and how to mend
  /// it.
  void add(unsigned line, const std::string& key, const std::string& text);
  bool empty() const { return problems_.empty(); }
  /// Returns "key: text" of the first problem found. REQUIRES: there is one.
  const std::string& first() const { return problems_.front().text; }
  /// Returns one line "filename:line: key: text" for each problem, in the order of lines.
  std::string report(const std::string& filename) const;

 private:
  struct Problem {
    unsigned line;
    std::string text;
  };
  std::vector<Problem> problems_;
};

/// A getter does not change its target if the key is absent or wrong, and records a wrong one.
/// finish() records the keys that no getter has read.
class Reader {
 public:
  /// `path` is the dotted path of the table, empty for the document. If `value` is not a table,
  /// this is recorded and it is read as an empty table.
  Reader(const Value& value, std::string path, Problems& problems);

  const Value* find(std::string_view key);
  void boolean(std::string_view key, bool& target);
  void number(std::string_view key, double& target, double least, double most);
  void string(std::string_view key, std::string& target);
  /// Reads an integer. False: the target was not changed. `hint` follows the message if the value
  /// is out of range. A key of bytes also accepts a text with a unit (abi/quantity.hpp).
  bool integer(std::string_view key, std::uint64_t& target, std::uint64_t least, std::uint64_t most,
               std::string_view hint = "");
  /// Returns the tables of [[key]], if any.
  std::vector<const Value*> tables(std::string_view key);
  /// Returns the strings of an array. Other elements are recorded as problems.
  std::vector<const Value*> strings(std::string_view key);
  void finish();

  /// Records a problem with the value of `key`, or with the table if the key is absent.
  void complain(std::string_view key, const std::string& text);
  std::string path_of(std::string_view key) const;
  unsigned line() const { return value_.line; }

 private:
  void complain_type(std::string_view key, const Value& value, const char* wanted);

  const Value& value_;
  Table no_table_;
  const Table& table_;
  std::string path_;
  Problems& problems_;
  std::vector<std::string_view> asked_;
};

}  // namespace softhca::configuration
