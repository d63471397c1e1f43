// The documents that are generated from the schema.
#pragma once

#include <string>

namespace softhca::configuration {

/// Returns config/softhca-full.toml: every key with its default and its description.
std::string sample_configuration();

/// Returns docs/configuration.md: a row for every key.
std::string configuration_reference();

}  // namespace softhca::configuration
