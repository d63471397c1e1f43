// Tables and numbers as softhcactl prints them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/admin_client.hpp"

namespace softhca::cli {

/// Columns as wide as their widest cell; numbers to the right.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

void print(const std::string& text);
/// One document, in a line of its own.
void print_json(const Json& json);
/// A member as text; "-" when it is not there.
std::string cell(const Json& object, const char* key);
/// "12/64": of `object[key]`, what is in use and what is guaranteed.
std::string use_of(const Json& object, const char* key);
/// "1.2k", "3.4M", "5.6G": three digits and a power of 1000.
std::string short_number(double value);
/// "1 tenant", "2 tenants": a count as text, and what is counted.
std::string counted(const std::string& count, const char* thing);
std::string duration_text(double seconds);
/// "2026-11-24 02:30:11.000": local time; `seconds` since 1970.
std::string clock_text(double seconds);
/// The lines of a change that was made or would be.
void print_changes(const Json& result);
/// To standard error: what of a change was not made after all.
void print_kept(const Json& result);

}  // namespace softhca::cli
