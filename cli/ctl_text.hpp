// SPDX-License-Identifier: Apache-2.0

// Formats tables, sentences and numbers for softhcactl.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/admin_client.hpp"

namespace softhca::cli {

struct Column {
  static constexpr unsigned kWide = 1;   ///< only with -o wide
  static constexpr unsigned kAlarm = 2;  ///< a number other than 0 asks for attention

  std::string title;
  unsigned kind = 0;

  Column(std::string text, unsigned flags = 0) : title(std::move(text)), kind(flags) {}
  Column(const char* text, unsigned flags = 0) : title(text), kind(flags) {}
  bool is_wide() const { return (kind & kWide) != 0; }
  bool is_alarm() const { return (kind & kAlarm) != 0; }
};

/// A table with columns as wide as their widest cell, and numbers aligned to the right. Columns on
/// the right matter least: if the table is wider than the terminal, the last one is broken into
/// lines, or columns are left out from the right and named below the table.
class TextTable {
 public:
  struct Style {
    std::size_t width = 0;  ///< columns of a line; 0: any number
    bool wide = false;      ///< with the columns of -o wide
    bool color = false;
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// Adds a row, with a cell for each column.
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.empty(); }
  std::string text(const Style& style) const;

 private:
  class Layout;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// Returns the text with its long lines broken between words. Further lines are indented. `width`
/// 0: returns the text as it is.
std::string wrapped(std::string_view text, std::size_t width);
/// Returns the lines of a text that are at most this long: broken after spaces and commas, and
/// within words that are longer.
std::vector<std::string> lines_of(std::string_view text, std::size_t width);
/// Returns how many columns of a terminal a text takes.
std::size_t columns_of(std::string_view text);
/// Returns a member as text; "-" if it is missing.
std::string cell(const Json& object, const char* key);
/// Returns "12/64": amounts of `object[key]` in use and guaranteed.
std::string use_of(const Json& object, const char* key);
/// Returns "1.2k", "3.4M", "5.6G": three digits and a power of 1000.
std::string short_number(double value);
/// Returns "1.5 GiB": three digits and a power of 1024.
std::string byte_text(double value);
/// Returns "1 tenant", "2 tenants".
std::string counted(const std::string& count, const char* thing);
std::string duration_text(double seconds);
/// Returns "2026-11-24 02:30:11.000" in local time; `seconds` since 1970.
std::string clock_text(double seconds);
/// Returns the line of an event of the daemon.
std::string event_text(const Json& event);

}  // namespace softhca::cli
