// SPDX-License-Identifier: Apache-2.0

// Words of one line of a script: "name=value" or "name".
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace softhca::packets {

class Arguments {
 public:
  Arguments() = default;
  explicit Arguments(const std::vector<std::string>& words) {
    for (const std::string& word : words) {
      const auto equals = word.find('=');
      values_[word.substr(0, equals)] = equals == std::string::npos ? "1" : word.substr(equals + 1);
    }
  }

  bool has(const std::string& name) { return find(name) != nullptr; }
  std::string text(const std::string& name, const std::string& otherwise = "") {
    const std::string* value = find(name);
    return value ? *value : otherwise;
  }
  /// Decimal, 0x..., or signed.
  std::optional<std::uint64_t> number(const std::string& name) {
    const std::string* value = find(name);
    if (value == nullptr) return std::nullopt;
    std::size_t used = 0;
    const bool negative = value->starts_with('-');
    const std::uint64_t n = negative ? static_cast<std::uint64_t>(std::stoll(*value, &used, 0))
                                     : std::stoull(*value, &used, 0);
    EXPECT_EQ(used, value->size()) << name << " is not a number: " << *value;
    return n;
  }
  std::uint64_t number(const std::string& name, std::uint64_t otherwise) {
    return number(name).value_or(otherwise);
  }
  /// Every word must have been asked for.
  void finish() {
    for (const auto& [name, value] : values_)
      EXPECT_TRUE(asked_.contains(name)) << "nobody knows \"" << name << "\" here";
  }

 private:
  const std::string* find(const std::string& name) {
    asked_.insert(name);
    const auto found = values_.find(name);
    return found == values_.end() ? nullptr : &found->second;
  }

  std::map<std::string, std::string> values_;
  std::set<std::string> asked_;
};

}  // namespace softhca::packets
