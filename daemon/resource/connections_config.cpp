#include "daemon/resource/connections_config.hpp"

namespace softhca::resource {

ConnectionsConfig read_connections(const Value& value, const std::string& path,
                                   ConnectionsConfig config, Problems& problems) {
  Reader reader(value, path, problems);
  for (const ConnectionsKey& key : kConnectionsKeys)
    reader.integer(key.key(), config.*key.member, key.least, key.most);
  reader.finish();
  return config;
}

}  // namespace softhca::resource
