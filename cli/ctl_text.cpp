// SPDX-License-Identifier: Apache-2.0

#include "cli/ctl_text.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <ctime>
#include <iterator>

namespace softhca::cli {
namespace {

bool is_number(const std::string& cell) {
  return !cell.empty() && (std::isdigit(static_cast<unsigned char>(cell[0])) || cell == "-");
}

/// Replaces control characters, because a process may choose a name that controls the terminal.
std::string printable(const std::string& text) {
  std::string out = text;
  for (char& c : out)
    if (std::iscntrl(static_cast<unsigned char>(c))) c = '?';
  return out;
}

}  // namespace

std::string TextTable::text() const {
  std::vector<std::size_t> widths(rows_[0].size());
  std::vector<bool> numbers(rows_[0].size(), rows_.size() > 1);
  for (std::size_t r = 0; r < rows_.size(); ++r)
    for (std::size_t c = 0; c < rows_[r].size(); ++c) {
      widths[c] = std::max(widths[c], rows_[r][c].size());
      if (r > 0 && !is_number(rows_[r][c])) numbers[c] = false;
    }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string pad(widths[c] - row[c].size(), ' ');
      line += (c == 0 ? "" : "  ") + (numbers[c] ? pad + row[c] : row[c] + pad);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

void print_json(const Json& json) {
  std::puts(json.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
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

std::string short_number(double value) {
  const char* units[] = {"", "k", "M", "G", "T", "P"};
  std::size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(units)) {
    value /= 1000;
    ++unit;
  }
  char text[32];
  const int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::snprintf(text, sizeof text, "%.*f%s", digits, value, units[unit]);
  return text;
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

void print_changes(const Json& result) {
  const Json changes = result.value("changes", Json::array());
  for (const Json& change : changes) std::printf("%s\n", change.value("text", "?").c_str());
  if (changes.empty()) std::puts("nothing to change");
  print_kept(result);
}

void print_kept(const Json& result) {
  for (const Json& line : result.value("kept", Json::array()))
    if (line.is_string()) std::fprintf(stderr, "%s\n", line.get<std::string>().c_str());
}

}  // namespace softhca::cli
