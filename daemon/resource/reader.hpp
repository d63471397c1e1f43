// Reads the keys of one table of the configuration and notes what is wrong with them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/resource/document.hpp"

namespace softhca::resource {

/// Everything found wrong so far.
class Problems {
 public:
  /// `key` is the dotted path of the key; `text` says what is wrong and how to mend it.
  void add(unsigned line, const std::string& key, const std::string& text);
  bool empty() const { return problems_.empty(); }
  /// "key: text" of the first that was found. REQUIRES: there is one.
  const std::string& first() const { return problems_.front().text; }
  /// One line "filename:line: key: text" for each, in the order of lines.
  std::string report(const std::string& filename) const;

 private:
  struct Problem {
    unsigned line;
    std::string text;
  };
  std::vector<Problem> problems_;
};

/// A getter leaves its target alone when the key is absent or wrong; wrong ones are noted.
/// finish() notes the keys that no getter has asked for.
class Reader {
 public:
  /// `path` is the dotted path of the table, empty for the document. A `value` that is no table is
  /// noted and read as an empty one.
  Reader(const Value& value, std::string path, Problems& problems);

  const Value* find(std::string_view key);
  void boolean(std::string_view key, bool& target);
  void number(std::string_view key, double& target, double least, double most);
  void string(std::string_view key, std::string& target);
  /// False: left alone. `hint` is put after the message when the value is out of range.
  bool integer(std::string_view key, std::uint64_t& target, std::uint64_t least, std::uint64_t most,
               std::string_view hint = "");
  /// The tables of [[key]], or none.
  std::vector<const Value*> tables(std::string_view key);
  /// The strings of an array; others in it are noted.
  std::vector<const Value*> strings(std::string_view key);
  void finish();

  /// Notes a problem with the value of `key` (absent: with the table).
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

}  // namespace softhca::resource
