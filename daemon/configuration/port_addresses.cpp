// SPDX-License-Identifier: Apache-2.0

#include "daemon/configuration/port_addresses.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>

namespace softhca::configuration {
namespace {

/// Returns the number of the first bit of an address that is behind the prefix, of 128.
unsigned end_of(const AddressPrefix& prefix) {
  return prefix.length + (prefix.address.is_ipv4() ? 96u : 0u);
}

unsigned host_bits(const AddressPrefix& prefix) { return 128 - end_of(prefix); }

/// True if no bit is set behind the prefix, of at least two: with one, both addresses are those of
/// hosts (RFC 3021, RFC 6164).
bool is_network(const AddressPrefix& prefix) {
  for (unsigned bit = end_of(prefix); bit < 128; ++bit)
    if ((prefix.address.bytes[bit / 8] >> (7 - bit % 8) & 1) != 0) return false;
  return host_bits(prefix) > 1;
}

/// Parses "10.0.0.0/24". Nothing: it is not a network.
std::optional<AddressPrefix> parse_network(const std::string& text) {
  const auto parsed = parse_interface_address(text);
  if (!parsed || !is_network({parsed->gid, parsed->prefix})) return std::nullopt;
  return AddressPrefix{parsed->gid, parsed->prefix};
}

std::string text_of(const AddressPrefix& network) {
  return to_string(network.address) + "/" + std::to_string(network.length);
}

const Value* value_of(const Value& table, std::string_view key) {
  return table.table() != nullptr ? table.table()->find(key) : nullptr;
}

class PortResolver {
 public:
  PortResolver(const std::vector<HostAddress>& host, std::size_t most, Problems& problems)
      : host_(host), most_(most), problems_(problems) {}

  void resolve(PortConfig& port, const Value& table) {
    table_ = &table;
    if (const Value* socket = value_of(table, "socket")) return resolve_socket(port, *socket);
    std::optional<AddressPrefix> network;
    std::vector<const HostAddress*> found;
    if (names_network(port.interface)) {
      network = read_network("interface", port.interface);
      if (network) found = find(*network, "interface");
      if (found.empty()) return port.addresses.clear();
      port.interface = found.front()->interface;
      if (port.addresses.empty())
        for (const HostAddress* each : found)
          port.addresses.push_back({each->address, each->prefix_length});
    }
    const Value* addresses = value_of(table, "addresses");
    if (addresses == nullptr || addresses->array() == nullptr) return;
    for (const Value& entry : *addresses->array())
      if (const auto pool = entry.string() ? parse_network(*entry.string()) : std::nullopt)
        replace_pool(port, *pool, network, found);
  }

 private:
  void complain(const std::string& key, const std::string& text) {
    const Value* value = value_of(*table_, key);
    problems_.add(value != nullptr ? value->line : table_->line, "port." + key, text);
  }

  static bool names_network(const std::string& text) { return text.find('/') != std::string::npos; }

  std::optional<AddressPrefix> read_network(const std::string& key, const std::string& text) {
    auto network = parse_network(text);
    if (!network)
      complain(key, "\"" + text + "\" is not a network; write \"10.0.0.0/24\" or \"fd00::/64\"");
    return network;
  }

  /// Returns the addresses of the host in the network, all of one interface. Empty: there is no
  /// such interface, or several.
  std::vector<const HostAddress*> find(const AddressPrefix& network, const std::string& key) {
    std::vector<const HostAddress*> found;
    for (const HostAddress& each : host_)
      if (network.contains(each.address)) found.push_back(&each);
    if (found.empty())
      complain(key, "no interface of this host has an address in " + text_of(network) +
                        " (see `ip addr`)");
    else if (std::ranges::any_of(
                 found, [&](const auto* each) { return each->interface != found[0]->interface; }))
      complain(key, "more than one interface of this host has an address in " + text_of(network) +
                        ": " + list_of(found) + "; name a smaller network, or the interface");
    else
      return found;
    return {};
  }

  /// Returns the host's only address in the network. Null: it has none, or several.
  const HostAddress* find_one(const AddressPrefix& network, const std::string& key,
                              const std::vector<const HostAddress*>& found) {
    if (found.size() == 1) return found.front();
    if (!found.empty())
      complain(key, "this host has more than one address in " + text_of(network) + ": " +
                        list_of(found) + "; name a smaller network");
    return nullptr;
  }

  static std::string list_of(const std::vector<const HostAddress*>& addresses) {
    std::string text;
    for (const HostAddress* each : addresses)
      text += (text.empty() ? "" : ", ") + to_string(each->address) + " of " + each->interface;
    return text;
  }

  void resolve_socket(PortConfig& port, const Value& socket) {
    const std::string* text = socket.string();
    if (text == nullptr) return complain("socket", "must be a string");
    if (names_network(*text)) {
      const auto network = read_network("socket", *text);
      if (!network) return;
      const HostAddress* own = find_one(*network, "socket", find(*network, "socket"));
      if (own == nullptr) return;
      port.socket = own->address;
    } else {
      const auto address = parse_address(*text);
      if (!address || !address->is_unicast())
        return complain("socket",
                        "must be an address of a host, or a network in which it has one: "
                        "\"10.0.0.1\", \"10.0.0.0/24\"");
      port.socket = *address;
    }
    port.addresses = {{.gid = *port.socket, .prefix = 0}};
  }

  /// Replaces a network, which was read as an address, by the host's part of it.
  void replace_pool(PortConfig& port, const AddressPrefix& pool,
                    const std::optional<AddressPrefix>& network,
                    const std::vector<const HostAddress*>& found) {
    const auto place =
        std::ranges::find(port.addresses, InterfaceAddress{pool.address, pool.length});
    if (place == port.addresses.end()) return;  // given twice
    const auto next = port.addresses.erase(place);
    if (!network)
      return complain("addresses",
                      "\"" + text_of(pool) +
                          "\" is a network; give addresses in it, or interface = \"10.0.0.0/24\" "
                          "with the network of the hosts that share it");
    const HostAddress* own = find_one(*network, "interface", found);
    if (own == nullptr) return;
    const auto part = part_of_pool(pool, *network, own->address, most_);
    if (part.empty())
      complain("addresses", text_of(pool) + " has " + std::to_string(host_bits(pool)) +
                                " bits for hosts, and the network " + text_of(*network) + " has " +
                                std::to_string(host_bits(*network)) +
                                "; give a larger one or a smaller network");
    port.addresses.insert(next, part.begin(), part.end());
  }

  const std::vector<HostAddress>& host_;
  std::size_t most_;
  Problems& problems_;
  const Value* table_ = nullptr;  ///< of the port
};

/// Calls `use` for each list `addresses` in a table, and in the tables within it.
template <class AnyValue, class Use>
void for_each_address_list(AnyValue& value, Use use) {
  if (auto* array = std::get_if<Array>(&value.content))
    for (auto& entry : *array) for_each_address_list(entry, use);
  if (auto* table = std::get_if<Table>(&value.content))
    for (auto& [key, entry] : table->entries) {
      auto* list = std::get_if<Array>(&entry.content);
      if (key == "addresses" && list != nullptr)
        use(*list);
      else
        for_each_address_list(entry, use);
    }
}

Value text_at(const Gid& address, unsigned line) {
  return {.content = to_string(address), .line = line};
}

/// Returns the reason why no address of the port can be given.
std::string why_none(const PortConfig& port) {
  return "port \"" + port.name +
         (port.addresses.empty()
              ? "\" has no addresses; give it some"
              : "\" has no address left (it has " + std::to_string(port.addresses.size()) + ")");
}

}  // namespace

void resolve_ports(std::vector<PortConfig>& ports, const std::vector<const Value*>& values,
                   const std::vector<HostAddress>& host, std::size_t most, Problems& problems) {
  PortResolver resolver(host, most, problems);
  for (std::size_t i = 0; i < ports.size(); ++i) resolver.resolve(ports[i], *values[i]);
}

std::vector<InterfaceAddress> part_of_pool(const AddressPrefix& pool, const AddressPrefix& network,
                                           const Gid& host, std::size_t most) {
  if (host_bits(pool) < host_bits(network)) return {};
  Gid base = pool.address;
  for (unsigned i = 0; i < host_bits(network); ++i) {
    const unsigned from = end_of(network) + i, to = end_of(pool) + i;
    const unsigned bit = host.bytes[from / 8] >> (7 - from % 8) & 1;
    base.bytes[to / 8] = static_cast<std::uint8_t>(base.bytes[to / 8] | bit << (7 - to % 8));
  }
  constexpr unsigned kMostBits = 16;
  const std::size_t size = std::size_t{1}
                           << std::min(host_bits(pool) - host_bits(network), kMostBits);
  std::vector<InterfaceAddress> part;
  // Address 0 of a part of several stays free: it looks like that of a network.
  for (std::size_t i = size > 1 ? 1 : 0; i < size && part.size() < most; ++i) {
    Gid address = base;
    address.bytes[14] = static_cast<std::uint8_t>(address.bytes[14] | i >> 8);
    address.bytes[15] = static_cast<std::uint8_t>(address.bytes[15] | (i & 0xff));
    part.push_back({address, pool.length});
  }
  return part;
}

NamedPorts::NamedPorts(const std::vector<PortConfig>& ports,
                       const std::vector<const Value*>& tenants) {
  std::set<Gid> taken;
  for (const Value* tenant : tenants)
    for_each_address_list(*tenant, [&](const Array& list) {
      for (const Value& entry : list)
        if (entry.string() != nullptr)
          for (const Gid& address : parse_addresses(*entry.string())) taken.insert(address);
    });
  for (const PortConfig& port : ports) {
    Named& named = ports_.emplace_back(Named{.port = &port});
    for (const InterfaceAddress& each : port.addresses)
      if (!taken.contains(each.gid)) named.free.push_back(each.gid);
  }
}

/// Returns the table with the addresses that `give` appends for a port, in place of its name. A
/// name for which it appends none is a problem of `key`.
template <class Give>
Value NamedPorts::replace(const Value& table, const char* key, Problems& problems, Give give) {
  Value replaced = table;
  for_each_address_list(replaced, [&](Array& list) {
    Array given;
    for (const Value& entry : list) {
      const auto named = std::ranges::find_if(ports_, [&](const Named& each) {
        return entry.string() != nullptr && !entry.string()->empty() &&
               each.port->name == *entry.string();
      });
      if (named == ports_.end()) {
        given.push_back(entry);
        continue;
      }
      const std::size_t before = given.size();
      give(*named, given, entry.line);
      if (given.size() == before) problems.add(entry.line, key, why_none(*named->port));
    }
    list = std::move(given);
  });
  return replaced;
}

Value NamedPorts::in_tenant(const Value& tenant, Problems& problems) {
  return replace(tenant, "tenant.addresses", problems,
                 [](Named& named, Array& list, unsigned line) {
                   if (named.given < named.free.size())
                     list.push_back(text_at(named.free[named.given++], line));
                 });
}

Value NamedPorts::in_template(const Value& table, Problems& problems) {
  return replace(table, "template.addresses", problems,
                 [this](Named& named, Array& list, unsigned line) {
                   for (std::size_t i = named.given; i < named.free.size(); ++i) {
                     list.push_back(text_at(named.free[i], line));
                     if (++of_templates_ > kMostAddressesInAll) return;  // refused as too many
                   }
                 });
}

}  // namespace softhca::configuration
