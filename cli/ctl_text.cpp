// SPDX-License-Identifier: Apache-2.0

#include "cli/ctl_text.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <span>

namespace softhca::cli {
namespace {

// A last column that has fewer columns of the terminal left is left out instead of broken.
constexpr std::size_t kLeastBroken = 12;
constexpr std::size_t kIndent = 4;
constexpr std::string_view kGap = "  ";

constexpr char kBold[] = "\x1b[1m", kRed[] = "\x1b[31m", kGreen[] = "\x1b[32m",
               kYellow[] = "\x1b[33m", kPlain[] = "\x1b[0m";

/// True for "12", "3.4 GiB", "0/64", "00:04:59" and "-", but not for addresses.
bool is_number(const std::string& cell) {
  const auto number_of = [&](char c) { return std::count(cell.begin(), cell.end(), c); };
  return cell == "-" || (!cell.empty() && std::isdigit(static_cast<unsigned char>(cell[0])) != 0 &&
                         number_of('.') != 3 && number_of(':') < 3);
}

const char* color_of(const std::string& cell, const Column& column) {
  for (const char* const word : {"RTS", "up", "established"})
    if (cell == word) return kGreen;
  for (const char* const word : {"ERR", "SQE", "down", "leaving"})
    if (cell == word) return kRed;
  const bool is_zero = cell.empty() || cell[0] == '-' || std::strtod(cell.c_str(), nullptr) == 0;
  return column.is_alarm() && !is_zero ? kYellow : nullptr;
}

/// Replaces control characters, because a process may choose a name that controls the terminal.
std::string printable(const std::string& text) {
  std::string out = text;
  for (char& c : out)
    if (std::iscntrl(static_cast<unsigned char>(c))) c = '?';
  return out;
}

}  // namespace

/// The columns of a table that are shown, and how wide they are.
class TextTable::Layout {
 public:
  Layout(const TextTable& table, const Style& style) : table_(table), style_(style) {
    for (std::size_t c = 0; c < table.columns_.size(); ++c)
      if (style.wide || !table.columns_[c].is_wide()) add(c);
    if (style.width != 0) fit();
  }

  std::string text() const {
    std::string out;
    std::vector<std::string> titles;
    for (const Column& column : table_.columns_) titles.push_back(column.title);
    add_row(out, titles, true);
    for (const auto& row : table_.rows_) add_row(out, row, false);
    if (!left_out_.empty())
      out += wrapped("not shown: " + left_out_ + " (-o wide shows all)\n", style_.width);
    return out;
  }

 private:
  struct Shown {
    std::size_t column;
    std::size_t width;
    bool is_number;
  };

  void add(std::size_t c) {
    Shown shown{c, columns_of(table_.columns_[c].title), !table_.rows_.empty()};
    for (const auto& row : table_.rows_) {
      shown.width = std::max(shown.width, columns_of(row[c]));
      shown.is_number &= is_number(row[c]);
    }
    shown_.push_back(shown);
  }

  std::size_t width() const {
    std::size_t sum = kGap.size() * (shown_.size() - 1);
    for (const Shown& shown : shown_) sum += shown.width;
    return sum;
  }

  /// Breaks the last column, or leaves it out, until the table fits.
  void fit() {
    while (width() > style_.width) {
      Shown& last = shown_.back();
      const std::size_t others = width() - last.width;
      const std::size_t least =
          std::max(kLeastBroken, columns_of(table_.columns_[last.column].title));
      if (shown_.size() == 1 || (!last.is_number && others + least <= style_.width)) {
        last.width = style_.width - others;
        return;
      }
      const std::string& title = table_.columns_[last.column].title;
      left_out_ = title + (left_out_.empty() ? "" : ", ") + left_out_;
      shown_.pop_back();
    }
  }

  void add_row(std::string& out, const std::vector<std::string>& row, bool is_title) const {
    const std::vector<std::string> last = lines_of(row[shown_.back().column], shown_.back().width);
    for (std::size_t line = 0; line < last.size(); ++line) {
      std::string text;
      for (std::size_t i = 0; i < shown_.size(); ++i) {
        const bool is_last = i + 1 == shown_.size();
        add_cell(text, is_last ? last[line] : line == 0 ? row[shown_[i].column] : "", i, is_title);
      }
      text.erase(text.find_last_not_of(' ') + 1);
      out += text + "\n";
    }
  }

  void add_cell(std::string& line, const std::string& cell, std::size_t i, bool is_title) const {
    const Shown& shown = shown_[i];
    const std::string pad(shown.width - columns_of(cell), ' ');
    const char* const color = !style_.color ? nullptr
                              : is_title    ? kBold
                                            : color_of(cell, table_.columns_[shown.column]);
    if (i != 0) line += kGap;
    if (shown.is_number) line += pad;
    line += color == nullptr ? cell : color + cell + kPlain;
    if (!shown.is_number) line += pad;
  }

  const TextTable& table_;
  const Style& style_;
  std::vector<Shown> shown_;
  std::string left_out_;
};

std::string TextTable::text(const Style& style) const { return Layout(*this, style).text(); }

std::vector<std::string> lines_of(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  while (columns_of(text) > width) {
    std::size_t end = 0;  // of the longest start that fits
    std::size_t columns = 0;
    std::size_t at = 0;
    for (; at < text.size(); ++at) {
      if ((static_cast<unsigned char>(text[at]) & 0xc0) != 0x80 && ++columns > width) break;
      if (text[at] == ' ') end = at;
      if (text[at] == ',' && columns <= width) end = at + 1;
    }
    // The space behind a start that just fits.
    if (at < text.size() && text[at] == ' ') end = at;
    if (end == 0) end = at;
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
    while (text.starts_with(' ')) text.remove_prefix(1);
  }
  lines.emplace_back(text);
  return lines;
}

std::string wrapped(std::string_view text, std::size_t width) {
  if (width == 0) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (columns_of(line) > width && width > 2 * kIndent) {
      const std::string first = lines_of(line, width).front();
      out += first + "\n";
      line.remove_prefix(first.size());
      while (line.starts_with(' ')) line.remove_prefix(1);
      for (const std::string& further : lines_of(line, width - kIndent))
        out += std::string(kIndent, ' ') + further + "\n";
    } else {
      out += std::string(line) + (end < text.size() ? "\n" : "");
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

std::string cell(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return "-";
  if (found->is_string()) return printable(found->get<std::string>());
  if (found->is_boolean()) return found->get<bool>() ? "yes" : "no";
  return found->dump();
}

std::string use_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return "-";
  return cell(*found, "in_use") + "/" + cell(*found, "guaranteed");
}

namespace {

/// Returns three digits, `gap` and the unit: the power of `base` that leaves less than it.
std::string scaled(double value, double base, std::span<const char* const> units, const char* gap) {
  std::size_t unit = 0;
  while (value >= base - 0.5 && unit + 1 < units.size()) {
    value /= base;
    ++unit;
  }
  char text[48];
  const int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::snprintf(text, sizeof text, "%.*f%s%s", digits, value, *units[unit] == 0 ? "" : gap,
                units[unit]);
  return text;
}

}  // namespace

std::string short_number(double value) {
  static constexpr const char* kUnits[] = {"", "k", "M", "G", "T", "P"};
  return scaled(value, 1000, kUnits, "");
}

std::string byte_text(double value) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  return scaled(value, 1024, kUnits, " ");
}

std::string counted(const std::string& count, const char* thing) {
  return count + " " + thing + (count == "1" ? "" : "s");
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<unsigned long>(seconds);
  char text[64];
  if (whole >= 86400)
    std::snprintf(text, sizeof text, "%lud %02lu:%02lu:%02lu", whole / 86400, whole / 3600 % 24,
                  whole / 60 % 60, whole % 60);
  else
    std::snprintf(text, sizeof text, "%02lu:%02lu:%02lu", whole / 3600, whole / 60 % 60,
                  whole % 60);
  return text;
}

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::time_t>(seconds);
  std::tm parts{};
  ::localtime_r(&whole, &parts);
  char text[64];
  const std::size_t end = std::strftime(text, sizeof text, "%F %T", &parts);
  std::snprintf(text + end, sizeof text - end, ".%03d",
                static_cast<int>((seconds - static_cast<double>(whole)) * 1000));
  return text;
}

std::string event_text(const Json& event) {
  std::string line = clock_text(event.value("time", 0.0)) + "  " + cell(event, "kind");
  if (event.contains("tenant")) line += "  tenant " + cell(event, "tenant");
  if (event.contains("qpn")) line += "  queue pair " + cell(event, "qpn");
  if (event.contains("pid") && event.contains("qpn")) line += " of process " + cell(event, "pid");
  return line + ": " + cell(event, "text");
}

}  // namespace softhca::cli
