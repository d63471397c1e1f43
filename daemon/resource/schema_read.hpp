// Reads the keys of a section as its table has them, and notes what is wrong.
#pragma once

#include "daemon/resource/reader.hpp"
#include "daemon/resource/schema.hpp"

namespace softhca::resource {

/// Reads the keys of the table that `reader` reads into `section`, a structure of `table`; what is
/// not given or wrong stays as it is. `pools`: for a table with keys that are bounded by these.
void read_keys(Reader& reader, const Schema& table, void* section, Problems& problems,
               const PoolsConfig* pools = nullptr);
/// Reads one key.
void read_key(Reader& reader, const Key& key, const Range& range, void* section,
              Problems& problems);

/// Reads a whole section. `path`: of its table in the document.
template <class S>
void read_section(const Value& value, const std::string& path, S& section, Problems& problems) {
  Reader reader(value, path, problems);
  read_keys(reader, schema_of<S>(), &section, problems);
  reader.finish();
}

}  // namespace softhca::resource
