// SPDX-License-Identifier: Apache-2.0

// Formats tables and numbers for softhcactl.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/admin_client.hpp"

namespace softhca::cli {

/// A table with columns as wide as their widest cell, and numbers aligned to the right.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : rows_{std::move(header)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

void print(const std::string& text);
/// Prints one document in its own line.
void print_json(const Json& json);
/// Returns a member as text; "-" if it is missing.
std::string cell(const Json& object, const char* key);
/// Returns "12/64": amounts of `object[key]` in use and guaranteed.
std::string use_of(const Json& object, const char* key);
/// Returns "1.2k", "3.4M", "5.6G": three digits and a power of 1000.
std::string short_number(double value);
/// Returns "1 tenant", "2 tenants".
std::string counted(const std::string& count, const char* thing);
std::string duration_text(double seconds);
/// Returns "2026-11-24 02:30:11.000" in local time; `seconds` since 1970.
std::string clock_text(double seconds);
/// Prints the lines of a change that was made or would be made.
void print_changes(const Json& result);
/// Prints to standard error the parts of a change that were not made.
void print_kept(const Json& result);

}  // namespace softhca::cli
