// SPDX-License-Identifier: Apache-2.0

// The keys of [[port]].
#include <algorithm>
#include <set>

#include "daemon/configuration/schema/reader.hpp"
#include "daemon/configuration/schema/schema.hpp"
#include "daemon/configuration/schema/text_rules.hpp"

namespace softhca::configuration {
namespace {

constexpr std::size_t kLongestInterface = 15;  // IFNAMSIZ without its terminating zero

constexpr TextRule kStaticNeighbour{
    [](std::string_view text) { return parse_static_neighbour(text).has_value(); },
    "must be an address and a link address, such as \"10.0.0.2=02:00:00:00:00:02\""};

constexpr Key kPortKeys[] = {
    {.name = "name",
     .at = at<&PortConfig::name>,
     .text = kSafeName,
     .missing = kNameMissing,
     .refusal = kPort,
     .shown = Shown::kOff,
     .sample = "\"uplink\""},
    {.name = "interface",
     .at = at<&PortConfig::interface>,
     .refusal = kPort,
     .lead = "One of three. interface: a network interface, used through a packet socket. Set its "
             "MTU with `ip link` before the daemon starts, which reads it only then: 4200 or more "
             "for an RDMA MTU of 4096. A second one to the same network, as in \"eth1, eth2\", is "
             "used while the first has no carrier. device: a DPDK device string. socket: an "
             "address of the kernel, of which ordinary sockets use UDP port 4791; that needs no "
             "privilege. An interface works best without addresses of the kernel on it. Instead "
             "of an interface or a socket's address, give a network, such as \"10.0.0.0/24\": the "
             "daemon takes the interface, or the address, that this host has in it. So many hosts "
             "can have the same file.",
     .shown = Shown::kOff,
     .sample = "\"eth1\""},
    {.name = "device",
     .at = at<&PortConfig::device>,
     .refusal = kPort,
     .shown = Shown::kAlternative,
     .sample = "\"net_memif,role=client,socket=/run/memif.sock,bsize=4608,rsize=10\""},
    {.name = "socket",
     .at = at<&PortConfig::socket>,
     .apart = true,
     .refusal = kPort,
     .doc = "the port's only address; no gateways, no VLAN",
     .shown = Shown::kAlternative,
     .sample = "\"10.0.0.1\""},
    {.name = "addresses",
     .at = at<&PortConfig::addresses>,
     .lead = "Addresses with the prefix length of their subnet. The daemon answers ARP and "
             "neighbour discovery for them. A tenant's addresses are chosen from them. A network, "
             "such as \"10.64.0.0/16\", is a pool of which each host takes its own part, up to "
             "pools.tenants addresses. Then `interface` must be a network. The host's number there "
             "selects the part: with interface = \"10.0.0.0/24\", host 10.0.0.17 gets 10.64.17.1, "
             "10.64.17.2 and so on. Default: the addresses that the interface has in the network "
             "of `interface`.",
     .shown = Shown::kOff,
     .sample = "[\"10.0.0.1/24\", \"fe80::1/64\"]"},
    {.name = "gateway4",
     .at = at<&PortConfig::gateway4>,
     .shown = Shown::kOff,
     .sample = "\"10.0.0.254\""},
    {.name = "gateway6",
     .at = at<&PortConfig::gateway6>,
     .shown = Shown::kOff,
     .sample = "\"fe80::ff\""},
    {.name = "vlan",
     .at = at<&PortConfig::vlan>,
     .range = {1, 4094},
     .refusal = kPort,
     .shown = Shown::kOff,
     .sample = "100"},
    {.name = "mtu",
     .at = at<&PortConfig::mtu>,
     .range = {576, 65535},
     .refusal = kPort,
     .unit = "bytes",
     .doc = "if the device cannot tell (memif), or paths carry less (socket)",
     .shown = Shown::kOff,
     .sample = "9000"},
    {.name = "neighbours",
     .at = at<&PortConfig::neighbours>,
     .text = kStaticNeighbour,
     .lead = "Hosts and gateways of the port's networks with fixed link addresses. The daemon does "
             "not request these addresses, and no host on the network can change them.",
     .shown = Shown::kOff,
     .sample = "[\"10.0.0.2=02:00:00:00:00:02\"]"},
};

bool is_interface_name(const std::string& text) {
  return !text.empty() && text.size() <= kLongestInterface &&
         text.find_first_of("= /") == std::string::npos && std::ranges::none_of(text, is_control);
}

void check_interface(Reader& reader, const PortConfig& config) {
  // resolve_ports() checks networks.
  if (config.interface.find('/') != std::string::npos) return;
  const std::vector<std::string> names = config.interfaces();
  if (!std::ranges::all_of(names, is_interface_name))
    reader.complain("interface", "is not the name of a network interface (see `ip link`)");
  else if (names.size() > 2 || (names.size() == 2 && names[0] == names[1]))
    reader.complain("interface", "has one interface, or two different ones: \"eth1, eth2\"");
}

/// Rejects the keys that a port with a socket leaves to the kernel.
void check_socket_port(Reader& reader) {
  for (const char* key : {"addresses", "gateway4", "gateway6", "neighbours", "vlan"})
    if (reader.find(key) != nullptr)
      reader.complain(key,
                      "cannot be set for a port with a socket: its address is the socket's, and "
                      "the kernel routes");
}

void check_port(Reader& reader, void* section) {
  auto& config = *static_cast<PortConfig*>(section);
  if (!config.interface.empty() + !config.device.empty() + (reader.find("socket") != nullptr) != 1)
    reader.complain(
        "interface",
        "give exactly one of interface = \"eth0\" (a network interface, by a packet socket), "
        "device = \"...\" (a DPDK device string) and socket = \"10.0.0.1\" (UDP sockets "
        "of this address)");
  else if (reader.find("socket") != nullptr)
    check_socket_port(reader);
  check_interface(reader, config);
  std::set<Gid> given;
  for (const std::string& text : config.neighbours)
    if (const auto neighbour = parse_static_neighbour(text);
        neighbour && !given.insert(neighbour->gid).second)
      reader.complain("neighbours", "has two link addresses for " + to_string(neighbour->gid));
}
constexpr Schema kPortTable{.comment =
                                "A network port. There may be any number of them. Without a port "
                                "the tenants reach only each other.",
                            .keys = kPortKeys,
                            .check = check_port};

}  // namespace

template <>
const Schema& schema_of<PortConfig>() {
  return kPortTable;
}
}  // namespace softhca::configuration
