// Reads the sections of the configuration file. Their keys are those of the schema.
#pragma once

#include "daemon/resource/config.hpp"
#include "daemon/resource/config_check.hpp"
#include "daemon/resource/reader.hpp"

namespace softhca::resource {

/// Fills `config`, which has the defaults, from the document and checks the whole.
ConfigSource read_document(const Value& document, Config& config, Problems& problems);

}  // namespace softhca::resource
