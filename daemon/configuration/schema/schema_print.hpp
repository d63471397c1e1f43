// SPDX-License-Identifier: Apache-2.0

// The sample configuration, which is generated from the schema.
#pragma once

#include <string>

namespace softhca::configuration {

/// Returns config/softhca-full.toml: every key with its default, description and range.
std::string sample_configuration();

}  // namespace softhca::configuration
