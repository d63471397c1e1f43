// SPDX-License-Identifier: Apache-2.0

// Reads the keys of a section as its table describes them, and records problems.
#pragma once

#include "daemon/configuration/schema/reader.hpp"
#include "daemon/configuration/schema/schema.hpp"

namespace softhca::configuration {

/// Reads the keys of the table that `reader` reads into `section`, a structure of `table`. Absent
/// or wrong keys do not change it. `pools`: for a table with keys that pools bound.
void read_keys(Reader& reader, const Schema& table, void* section, Problems& problems,
               const PoolsConfig* pools = nullptr);
/// Reads one key.
void read_key(Reader& reader, const Key& key, const Range& range, void* section,
              Problems& problems);

/// Reads a whole section. `path`: the path of its table in the document.
template <class S>
void read_section(const Value& value, const std::string& path, S& section, Problems& problems) {
  Reader reader(value, path, problems);
  read_keys(reader, schema_of<S>(), &section, problems);
  reader.finish();
}

}  // namespace softhca::configuration
