// The documents that are made from the schema.
#pragma once

#include <string>

namespace softhca::resource {

/// config/softhca.toml: every key with its default and what it means.
std::string sample_configuration();

/// docs/configuration.md: a row for every key.
std::string configuration_reference();

}  // namespace softhca::resource
