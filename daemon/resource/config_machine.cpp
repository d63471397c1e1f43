#include "daemon/resource/config_machine.hpp"

#include <net/if.h>
#include <unistd.h>

#include "daemon/resource/owners.hpp"

namespace softhca::resource {
namespace {

unsigned line_of(const Value& table, std::string_view key) {
  const Value* value = table.table() ? table.table()->find(key) : nullptr;
  return value ? value->line : table.line;
}

void check_engine_cpu(const Config& config, const ConfigSource& source, Problems& problems) {
  const long cores = ::sysconf(_SC_NPROCESSORS_CONF);
  if (!config.daemon.engine_cpu || cores <= 0 ||
      *config.daemon.engine_cpu < static_cast<unsigned long>(cores))
    return;
  const Value* table = source.document->table()->find("daemon");
  problems.add(table ? line_of(*table, "engine_cpu") : 1, "daemon.engine_cpu",
               "is " + std::to_string(*config.daemon.engine_cpu) +
                   ", but the cores here are 0 to " + std::to_string(cores - 1));
}

}  // namespace

void check_machine(const Config& config, const ConfigSource& source, Problems& problems) {
  check_engine_cpu(config, source, problems);
  for (std::size_t i = 0; i < config.ports.size(); ++i) {
    const std::string& name = config.ports[i].interface;
    if (!name.empty() && ::if_nametoindex(name.c_str()) == 0)
      problems.add(line_of(*source.ports[i], "interface"), "port.interface",
                   "there is no interface " + name + " here (see `ip link`)");
  }
  for (std::size_t i = 0; i < config.tenants.size(); ++i) {
    const unsigned line = line_of(*source.tenants[i], "socket");
    const SocketConfig& socket = config.tenants[i].socket;
    if (const auto user = user_id(socket.owner); !user)
      problems.add(line, "tenant.socket.owner", user.error().message);
    if (const auto group = group_id(socket.group); !group)
      problems.add(line, "tenant.socket.group", group.error().message);
  }
}

}  // namespace softhca::resource
