// SPDX-License-Identifier: Apache-2.0

#include "cli/ctl/ctl_output.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace softhca::cli {
namespace {

constexpr char kClear[] = "\x1b[H\x1b[J";
// A count with fewer digits than this is exact.
constexpr double kLongCount = 100000;

bool is_terminal() { return ::isatty(STDOUT_FILENO) == 1; }

/// Returns the columns of a line. 0: any number.
std::size_t columns_of_output() {
  if (const char* const text = std::getenv("COLUMNS"); text != nullptr)
    if (const int columns = std::atoi(text); columns > 0) return static_cast<std::size_t>(columns);
  winsize size{};
  if (!is_terminal()) return 0;
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0 ? size.ws_col : 80;
}

bool use_color(const std::string& choice) {
  if (choice != "auto") return choice == "always";
  const char* const no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* const terminal = std::getenv("TERM");
  return is_terminal() && terminal != nullptr && std::string_view(terminal) != "dumb";
}

std::string whole(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.0f", value);
  return text;
}

/// Returns the member as a number; NaN if it is none.
double number_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : std::nan("");
}

}  // namespace

Format format_of(const std::string& name) {
  if (name == "table") return Format::kTable;
  if (name == "wide") return Format::kWide;
  if (name == "json") return Format::kJson;
  if (name == "yaml") return Format::kYaml;
  throw CommandError(kUsage, "-o: give table, wide, json or yaml");
}

OutputStyle style_of(Format format, const std::string& color, bool exact) {
  return {.format = format,
          .exact = exact,
          .color = use_color(color),
          .live = is_terminal() && (format == Format::kTable || format == Format::kWide),
          .width = format == Format::kTable ? columns_of_output() : 0};
}

void flush_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw CommandError(kUnwritten,
                     std::string("standard output: ") + std::strerror(errno != 0 ? errno : EIO));
}

bool Output::document(const Json& document) {
  if (!is_document()) return false;
  if (style_.format == Format::kJson) {
    std::puts(document.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
    return true;
  }
  if (documents_++ != 0) std::puts("---");
  std::fputs(yaml_text(document).c_str(), stdout);
  return true;
}

void Output::print(std::string_view text) const {
  std::fputs(wrapped(text, style_.width).c_str(), stdout);
}

void Output::print(const TextTable& table) const {
  std::fputs(table.text({.width = style_.width, .wide = is_wide(), .color = style_.color}).c_str(),
             stdout);
}

void Output::section(const TextTable& table) const {
  std::puts("");
  print(table);
}

void Output::begin_round() {
  if (style_.live)
    std::fputs(kClear, stdout);
  else if (rounds_++ != 0 && !is_document())
    std::puts("");
}

std::string Output::count(double value) const {
  return style_.exact || value < kLongCount ? whole(value) : short_number(value);
}

std::string Output::count(const Json& object, const char* key) const {
  const double value = number_of(object, key);
  return std::isnan(value) ? cell(object, key) : count(value);
}

std::string Output::bytes(double value) const {
  return style_.exact ? whole(value) : byte_text(value);
}

std::string Output::bytes(const Json& object, const char* key) const {
  const double value = number_of(object, key);
  return std::isnan(value) ? cell(object, key) : bytes(value);
}

std::string Output::rate(double per_second) const {
  if (style_.exact) return whole(per_second);
  const std::string text = short_number(per_second);
  const bool has_unit = text.back() > '9';
  return has_unit ? text.substr(0, text.size() - 1) + " " + text.back() + "/s" : text + "/s";
}

std::string Output::byte_rate(double per_second) const {
  return style_.exact ? whole(per_second) : byte_text(per_second) + "/s";
}

}  // namespace softhca::cli
