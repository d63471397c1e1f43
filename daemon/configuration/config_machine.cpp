// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/config_machine.hpp"

#include <net/if.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "daemon/base/kernel_address.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/configuration/resource_manager/owners.hpp"

namespace softhca::configuration {
namespace {

/// Returns the value of `key`. Null: `table` has no such key, or is not a table.
const Value* find(const Value& table, std::string_view key) {
  return table.table() ? table.table()->find(key) : nullptr;
}

/// Calls `use` for each string of the array `key`.
template <typename Use>
void for_each_string(const Value& table, std::string_view key, Use use) {
  const Value* list = find(table, key);
  if (list == nullptr || !list->array()) return;
  for (const Value& element : *list->array())
    if (element.string()) use(element);
}

/// Checks the document rather than the Config, which does not have line numbers.
class Machine {
 public:
  Machine(const Value& document, Problems& problems) : document_(document), problems_(problems) {}

  void check_engine_cpu(const Config& config) {
    const long cores = ::sysconf(_SC_NPROCESSORS_CONF);
    if (!config.daemon.engine_cpu || cores <= 0 ||
        *config.daemon.engine_cpu < static_cast<unsigned long>(cores))
      return;
    problems_.add(find(*find(document_, "daemon"), "engine_cpu")->line, "daemon.engine_cpu",
                  "is " + std::to_string(*config.daemon.engine_cpu) +
                      ", but this host has the cores 0 to " + std::to_string(cores - 1));
  }

  void check_admin() {
    if (const Value* admin = find(document_, "admin")) check_socket(*admin, "admin", "socket");
  }

  /// One of two interfaces may be missing. REQUIRES: `value` is a text, and names no network.
  void check_interfaces(const Value& value) {
    const std::vector<std::string> names = PortConfig{.interface = *value.string()}.interfaces();
    const auto is_missing = [](const std::string& name) {
      return !name.empty() && ::if_nametoindex(name.c_str()) == 0;
    };
    if (!names.empty() && std::ranges::all_of(names, is_missing))
      problems_.add(value.line, "port.interface",
                    "this host has no interface " + *value.string() + " (see `ip link`)");
  }

  void check_port(const Value& port) {
    const Value* value = find(port, "interface");
    if (value != nullptr && value->string() && value->string()->find('/') == std::string::npos)
      check_interfaces(*value);
    if (const Value* address = find(port, "socket"); address != nullptr && address->string())
      check_local(*address);
  }

  /// `section`: tenant or template.
  void check_tenant(const Value& tenant, const std::string& section) {
    check_socket(tenant, section, "socket");
    check_socket(tenant, section, "control");
    const Value* levels = find(tenant, "level");
    if (levels == nullptr || !levels->array()) return;
    for (const Value& level : *levels->array()) {
      const std::string path = section + ".level";
      check_socket(level, path, "socket");
      for_each_string(level, "users", [&](const Value& v) { check_user(v, path + ".users"); });
      for_each_string(level, "groups", [&](const Value& v) { check_group(v, path + ".groups"); });
    }
  }

 private:
  void check_user(const Value& name, const std::string& key) {
    if (const auto user = user_id(*name.string()); !user)
      problems_.add(name.line, key, user.error().message);
  }
  void check_group(const Value& name, const std::string& key) {
    if (const auto group = group_id(*name.string()); !group)
      problems_.add(name.line, key, group.error().message);
  }

  void check_socket(const Value& table, const std::string& path, const std::string& key) {
    const Value* socket = find(table, key);
    if (socket == nullptr) return;
    const std::string name = path + "." + key;
    if (const Value* owner = find(*socket, "owner"); owner != nullptr && owner->string())
      check_user(*owner, name + ".owner");
    if (const Value* group = find(*socket, "group"); group != nullptr && group->string())
      check_group(*group, name + ".group");
  }

  /// Checks that the machine has the address. Link-local addresses are not checked: a bind needs
  /// their interface, too.
  void check_local(const Value& address) {
    const auto gid = parse_address(*address.string());
    if (!gid || gid->is_link_local() || can_bind(*gid)) return;
    problems_.add(
        address.line, "port.socket",
        "no interface of this host has the address " + *address.string() + " (see `ip addr`)");
  }

  static bool can_bind(const Gid& gid) {
    const UniqueFd fd(::socket(family_of(gid), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const KernelAddress any_port = kernel_address(gid, 0);
    return ::bind(fd.get(), any_port.get(), any_port.length) == 0;
  }

  const Value& document_;
  Problems& problems_;
};

}  // namespace

void check_machine(const Config& config, const ConfigSource& source, Problems& problems) {
  Machine machine(*source.document, problems);
  machine.check_engine_cpu(config);
  machine.check_admin();
  for (const Value* port : source.ports) machine.check_port(*port);
  for (const Value* tenant : source.tenants) machine.check_tenant(*tenant, "tenant");
  for (const Value* each : source.templates) machine.check_tenant(*each, "template");
}

}  // namespace softhca::configuration
