// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/config_check.hpp"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>

#include "daemon/configuration/resource_manager/minimum_check.hpp"
#include "daemon/configuration/tenant_amounts.hpp"

namespace softhca::configuration {
namespace {

constexpr std::size_t kLongestSocketPath = 107;  // sun_path without its terminating zero

unsigned line_of(const Value& table, std::string_view key) {
  const Value* value = table.table() ? table.table()->find(key) : nullptr;
  return value ? value->line : table.line;
}

bool in_subnet(const Gid& gid, const InterfaceAddress& subnet) {
  if (gid.is_ipv4() != subnet.gid.is_ipv4()) return false;
  const unsigned bits = subnet.prefix + (gid.is_ipv4() ? 96 : 0);
  return bits_in_common(gid, subnet.gid) >= bits;
}

class Checker {
 public:
  Checker(const Config& config, const ConfigSource& source, Problems& problems)
      : config_(config), source_(source), problems_(problems) {}

  void run() {
    check_port_names();
    check_gateways();
    check_tenant_count();
    check_tenant_names();
    if (check_shares()) check_pools();  // amounts that follow from the shares would not fit either
    check_hard_caps();
    check_minimums();
    check_machines();
    if (check_address_count()) {
      check_port_addresses();
      check_tenant_addresses();
      check_templates();
    }
    check_general_services();
  }

 private:
  void port_problem(std::size_t i, std::string_view key, const std::string& text) {
    problems_.add(line_of(*source_.ports[i], key), "port." + std::string(key), text);
  }
  void tenant_problem(std::size_t i, std::string_view key, const std::string& text) {
    const unsigned line = line_of(*source_.tenants[i], key);
    problems_.add(line, (line != 0 ? "tenant." : the_tenant(i) + ": ") + std::string(key), text);
  }
  std::string port_line(std::size_t i) const { return std::to_string(source_.ports[i]->line); }
  /// Returns "the tenant of line 7", or its name if it is not from a document.
  std::string the_tenant(std::size_t i) const {
    const unsigned line = source_.tenants[i]->line;
    return line != 0 ? "the tenant of line " + std::to_string(line)
                     : "tenant " + config_.tenants[i].name;
  }

  void check_port_names() {
    const auto refuse_twice = [&](std::string_view key, const auto& taken_by) {
      std::map<std::string, std::size_t> ports;  // by what they take
      for (std::size_t i = 0; i < config_.ports.size(); ++i)
        for (const std::string& given : taken_by(config_.ports[i]))
          if (const auto [taken, is_new] = ports.emplace(given, i);
              !is_new && taken->second != i && !given.empty())
            port_problem(i, key,
                         "\"" + given + "\" is already taken by the port of line " +
                             port_line(taken->second) + "; each port needs its own");
    };
    using Names = std::vector<std::string>;
    refuse_twice("name", [](const PortConfig& port) { return Names{port.name}; });
    refuse_twice("interface", [](const PortConfig& port) { return port.interfaces(); });
    refuse_twice("device", [](const PortConfig& port) { return Names{port.device}; });
  }

  /// The checks of addresses compare each with each other.
  bool check_address_count() {
    std::size_t count = 0;
    for (const PortConfig& port : config_.ports) count += port.addresses.size();
    for (const auto* tenants : {&config_.tenants, &config_.templates})
      for (const TenantConfig& tenant : *tenants) count += tenant.addresses.size();
    if (count <= kMostAddressesInAll) return true;
    problems_.add(1, "addresses",
                  "ports, tenants and templates list " + std::to_string(count) + ", at most " +
                      std::to_string(kMostAddressesInAll) + " are possible");
    return false;
  }

  void check_port_addresses() {
    for (std::size_t i = 0; i < config_.ports.size(); ++i) {
      const auto& addresses = config_.ports[i].addresses;
      for (std::size_t k = 0; k < addresses.size(); ++k)
        if (const auto earlier = earlier_port_address(i, k))
          port_problem(i, config_.ports[i].socket ? "socket" : "addresses",
                       to_string(addresses[k].gid) + " is already given to the port of line " +
                           port_line(*earlier) + "; give it once");
    }
  }

  /// Returns the port that has address k of port i already, if any.
  std::optional<std::size_t> earlier_port_address(std::size_t i, std::size_t k) const {
    const Gid& gid = config_.ports[i].addresses[k].gid;
    for (std::size_t j = 0; j <= i; ++j) {
      const auto& others = config_.ports[j].addresses;
      const std::size_t count = j == i ? k : others.size();
      for (std::size_t l = 0; l < count; ++l)
        if (others[l].gid == gid) return j;
    }
    return std::nullopt;
  }

  void check_gateways() {
    for (std::size_t i = 0; i < config_.ports.size(); ++i) {
      const PortConfig& port = config_.ports[i];
      const auto check = [&](std::string_view key, const std::optional<Gid>& gateway) {
        if (!gateway || gateway->is_link_local()) return;
        const auto reaches = [&](const InterfaceAddress& a) { return in_subnet(*gateway, a); };
        if (std::none_of(port.addresses.begin(), port.addresses.end(), reaches))
          port_problem(i, key,
                       to_string(*gateway) +
                           " is in no subnet of the port's addresses; give the port an address "
                           "in the gateway's subnet, with its prefix length");
      };
      check("gateway4", port.gateway4);
      check("gateway6", port.gateway6);
    }
  }

  void check_tenant_count() {
    const std::uint32_t room = config_.pools.tenants;
    if (config_.tenants.size() > room)
      tenant_problem(
          room, "name",
          "is one tenant too many: pools.tenants = " + std::to_string(room) + "; raise it");
  }

  void check_tenant_names() {
    for (std::size_t i = 0; i < config_.tenants.size(); ++i) {
      const std::string& name = config_.tenants[i].name;
      if (name.empty()) continue;
      for (std::size_t j = 0; j < i; ++j)
        if (config_.tenants[j].name == name) {
          tenant_problem(i, "name",
                         "\"" + name + "\" is already taken by " + the_tenant(j) +
                             "; each tenant needs its own");
          break;
        }
      const std::string path = config_.daemon.runtime_dir + '/' + name + "/socket";
      if (path.size() > kLongestSocketPath)
        tenant_problem(i, "name",
                       "makes the socket path " + path + " longer than " +
                           std::to_string(kLongestSocketPath) +
                           " bytes; shorten the name or daemon.runtime_dir");
    }
  }

  /// Checks the templates. A configuration that is not from a document has none to check: its
  /// templates are in force already.
  void check_templates() {
    for (std::size_t i = 0; i < source_.templates.size(); ++i) {
      const TenantConfig& config = config_.templates[i];
      const auto complain = [&](const char* key, const std::string& text) {
        problems_.add(line_of(*source_.templates[i], key), std::string("template.") + key, text);
      };
      const auto first = std::ranges::find(config_.templates, config.name, &TenantConfig::name);
      const auto earlier = static_cast<std::size_t>(first - config_.templates.begin());
      if (!config.name.empty() && earlier < i)
        complain("name", "\"" + config.name + "\" is already taken by the template of line " +
                             std::to_string(source_.templates[earlier]->line) +
                             "; each needs its own");
      for (const Gid& gid : config.addresses)
        if (const auto why = find_unreachable(gid)) complain("addresses", *why);
      if (could_never_send(config)) complain("shared", kNeverSends);
    }
  }

  void check_tenant_addresses() {
    for (std::size_t i = 0; i < config_.tenants.size(); ++i) {
      const auto& addresses = config_.tenants[i].addresses;
      for (std::size_t k = 0; k < addresses.size(); ++k) {
        if (const auto earlier = earlier_tenant_address(i, k))
          tenant_problem(i, "addresses",
                         to_string(addresses[k]) + " is already given to " + the_tenant(*earlier) +
                             "; an address belongs to one tenant, once");
        if (const auto why = find_unreachable(addresses[k])) tenant_problem(i, "addresses", *why);
      }
    }
  }

  std::optional<std::size_t> earlier_tenant_address(std::size_t i, std::size_t k) const {
    const Gid& gid = config_.tenants[i].addresses[k];
    for (std::size_t j = 0; j <= i; ++j) {
      const auto& others = config_.tenants[j].addresses;
      const auto end = j == i ? others.begin() + static_cast<std::ptrdiff_t>(k) : others.end();
      if (std::find(others.begin(), end, gid) != end) return j;
    }
    return std::nullopt;
  }

  /// Returns the error if the address looks reachable but is not: it is in a subnet of a port that
  /// does not have it. An address outside all subnets works within the daemon only. A port with a
  /// socket has no subnet: the kernel routes.
  std::optional<std::string> find_unreachable(const Gid& gid) const {
    const InterfaceAddress* subnet = nullptr;
    const PortConfig* owner = nullptr;
    for (const PortConfig& port : config_.ports)
      for (const InterfaceAddress& address : port.addresses) {
        if (address.gid == gid) return std::nullopt;
        if (port.socket || !in_subnet(gid, address)) continue;
        subnet = &address;
        owner = &port;
      }
    if (!subnet) return std::nullopt;
    return to_string(gid) + " lies in the subnet of port \"" + owner->name +
           "\", which does not have it; add it to that port's addresses";
  }

  bool check_shares() {
    const auto excess = find_excess(config_.tenants);
    if (excess) tenant_problem(config_.tenants.size() - 1, "share", *excess);
    if (!excess) check_rest();
    return !excess;
  }

  /// Checks that the shares leave something for those without a share. Otherwise their default
  /// limits would be nothing. Limits that are not from a document are in force already.
  void check_rest() {
    std::vector<Share> shares;
    for (const TenantConfig& tenant : config_.tenants) shares.push_back(tenant.share);
    if (unshared(shares).tenths != 0) return;
    const auto complain = [&](const Value& table, const std::string& section,
                              const TenantConfig& tenant) {
      if (table.line != 0 && tenant.share.tenths == 0)
        problems_.add(line_of(table, "share"), section + ".share",
                      "the shares leave nothing for " + section + ' ' + tenant.name +
                          "; give it a share or lower another");
    };
    for (std::size_t i = 0; i < config_.tenants.size(); ++i)
      complain(*source_.tenants[i], "tenant", config_.tenants[i]);
    for (std::size_t i = 0; i < source_.templates.size(); ++i)
      complain(*source_.templates[i], "template", config_.templates[i]);
  }

  void check_pools() {
    const PoolsConfig& pools = config_.pools;
    check_pool("pcbs", pools.pcbs, pools.dedicated_pcbs,
               [](const TenantConfig& t) { return std::uint64_t{t.pcbs}; });
    check_pool("vcbs", pools.vcbs, 0, [](const TenantConfig& t) { return std::uint64_t{t.vcbs}; });
    check_pool("tvls", pools.tvls, 0,
               [](const TenantConfig& t) { return std::uint64_t{t.tvls.size()}; });
    check_pool("execution_credits", pools.execution_credits, 0, [](const TenantConfig& t) {
      std::uint64_t sum = 0;
      for (const TvlConfig& tvl : t.tvls) sum += tvl.execution_credits;
      return sum;
    });
    check_pool("completion_credits", pools.completion_credits, 0, [](const TenantConfig& t) {
      std::uint64_t sum = 0;
      for (const TvlConfig& tvl : t.tvls) sum += tvl.completion_credits;
      return sum;
    });
    check_pool(
        "min_bytes_per_second", pools.min_bytes_per_second, 0,
        [](const TenantConfig& t) { return t.rates.sent.min_bytes_per_second; }, "rate");
  }

  void check_minimums() {
    for (std::size_t i = 0; i < config_.tenants.size(); ++i)
      if (const auto wrong = find_wrong_minimum(config_.tenants[i]))
        tenant_problem(i, "rate", wrong->text);
  }

  void check_machines() {
    for (std::size_t i = 0; i < config_.tenants.size(); ++i)
      if (const std::string wrong = find_wrong_region(config_.tenants[i]); !wrong.empty())
        tenant_problem(i, "guest_memory", wrong);
  }

  /// Checks that the buffers suffice for the daemon's own clients of general services, for each
  /// tenant.
  void check_general_services() {
    const GeneralServicesConfig& services = config_.general_services;
    const std::uint64_t asked =
        std::uint64_t{kOwnClients} * services.buffers_per_client * config_.tenants.size();
    if (asked <= services.buffers) return;
    const Value* table = source_.document->table()->find("general_services");
    problems_.add(table ? line_of(*table, "buffers") : 1, "general_services.buffers",
                  "is " + std::to_string(services.buffers) +
                      ", but the daemon's own clients need " + std::to_string(asked) + " for " +
                      std::to_string(config_.tenants.size()) +
                      " tenants; raise it or lower buffers_per_client");
  }

  /// Reports the first tenant with a guarantee that exceeds the rest of the pool. `of_tenant`: its
  /// key, if it has another name than the pool.
  void check_pool(std::string_view key, std::uint64_t total, std::uint64_t set_aside,
                  const std::function<std::uint64_t(const TenantConfig&)>& guaranteed,
                  std::string_view of_tenant = {}) {
    if (set_aside > total) {
      const Value* table = source_.document->table()->find("pools");
      problems_.add(table ? line_of(*table, "dedicated_pcbs") : 1, "pools.dedicated_pcbs",
                    "is " + std::to_string(set_aside) + ", more than pools." + std::string(key) +
                        " = " + std::to_string(total) + "; lower it or raise the pool");
      return;
    }
    std::uint64_t free = total - set_aside;
    for (std::size_t i = 0; i < config_.tenants.size(); ++i) {
      const std::uint64_t asked = guaranteed(config_.tenants[i]);
      if (asked > free) {
        const std::string dedicated =
            set_aside == 0 ? ""
                           : ", less pools.dedicated_pcbs = " + std::to_string(set_aside) + ",";
        tenant_problem(i, of_tenant.empty() ? key : of_tenant,
                       "guarantees " + std::to_string(asked) + ", but only " +
                           std::to_string(free) + " of pools." + std::string(key) + " = " +
                           std::to_string(total) + dedicated +
                           " are left; lower a guarantee or raise the pool");
        return;
      }
      free -= asked;
    }
  }

  void check_hard_caps() {
    for (std::size_t i = 0; i < config_.tenants.size(); ++i)
      if (could_never_send(config_.tenants[i])) tenant_problem(i, "shared", kNeverSends);
  }

  static constexpr const char* kNeverSends =
      "is false and a TVL has no execution or completion credits of its own, so it could never "
      "send; give every TVL both";
  static bool could_never_send(const TenantConfig& tenant) {
    return !tenant.shared && std::ranges::any_of(tenant.tvls, [](const TvlConfig& tvl) {
      return tvl.execution_credits == 0 || tvl.completion_credits == 0;
    });
  }

  const Config& config_;
  const ConfigSource& source_;
  Problems& problems_;
};

}  // namespace

void check_config(const Config& config, const ConfigSource& source, Problems& problems) {
  Checker(config, source, problems).run();
}

Outcome check_together(const Config& config) {
  const Value nowhere{.content = Table{}};
  const ConfigSource source{&nowhere,
                            std::vector<const Value*>(config.ports.size(), &nowhere),
                            std::vector<const Value*>(config.tenants.size(), &nowhere),
                            {}};
  Problems problems;
  check_config(config, source, problems);
  if (problems.empty()) return {};
  return Error{problems.first(), EINVAL};
}

}  // namespace softhca::configuration
