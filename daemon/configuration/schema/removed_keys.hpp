// SPDX-License-Identifier: Apache-2.0

// The keys of earlier versions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace softhca::configuration {

/// Returns the error for a key that an earlier version had: what holds now. `table`
/// is the dotted path of its table; `key` may have the table's inner tables before it. Nothing: no
/// version had the key.
std::optional<std::string> removal_of(std::string_view table, std::string_view key);

}  // namespace softhca::configuration
