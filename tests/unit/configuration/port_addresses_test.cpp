// SPDX-License-Identifier: Apache-2.0

// One file for many hosts: ports by network, pools of addresses, tenants with addresses of a port.
#include "daemon/configuration/port_addresses.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace softhca::configuration {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kLocalTenant = "[[tenant]]\nname = \"t\"\naddresses = [\"198.18.0.1\"]\n";
constexpr const char* kByNetwork =
    "[[port]]\nname = \"wire\"\ninterface = \"10.0.0.0/24\"\n"
    "addresses = [\"10.64.0.0/16\"]\n";

HostAddress assigned(const std::string& interface, const char* address) {
  const auto parsed = parse_interface_address(address);
  return {.interface = interface, .address = parsed->gid, .prefix_length = parsed->prefix};
}

std::vector<HostAddress> this_host(const char* address = "10.0.0.17/24") {
  return {assigned("lo", "127.0.0.1/8"), assigned("eth7", address), assigned("eth7", "fe80::1/64")};
}

Config on_host(const std::string& text, const std::vector<HostAddress>& addresses = this_host()) {
  auto config = parse_config(text, "test.toml", addresses);
  if (config) return *config;
  ADD_FAILURE() << config.error().message;
  return {};
}

std::string error_on_host(const std::string& text,
                          const std::vector<HostAddress>& addresses = this_host()) {
  const auto config = parse_config(text, "f", addresses);
  return config ? "accepted" : config.error().message;
}

std::vector<std::string> written(const std::vector<Gid>& addresses) {
  std::vector<std::string> out;
  for (const Gid& gid : addresses) out.push_back(to_string(gid));
  return out;
}

std::vector<std::string> written(const std::vector<InterfaceAddress>& addresses) {
  std::vector<std::string> out;
  for (const InterfaceAddress& each : addresses)
    out.push_back(to_string(each.gid) + "/" + std::to_string(each.prefix));
  return out;
}

std::vector<std::string> part_for(const char* pool, const char* network, const char* own,
                                  std::size_t most) {
  const auto prefix = [](const char* text) {
    const auto parsed = parse_interface_address(text);
    return AddressPrefix{parsed->gid, parsed->prefix};
  };
  return written(part_of_pool(prefix(pool), prefix(network), *parse_address(own), most));
}

TEST(PartOfPool, NumberOfTheHost_SelectsThePart) {
  EXPECT_THAT(part_for("10.64.0.0/16", "10.0.0.0/24", "10.0.0.17", 2),
              ElementsAre("10.64.17.1/16", "10.64.17.2/16"));
  EXPECT_THAT(part_for("10.64.0.0/12", "10.1.0.0/16", "10.1.2.3", 1),
              ElementsAre("10.64.32.49/12"));
  EXPECT_THAT(part_for("fd00::/64", "10.0.0.0/8", "10.1.2.3", 1),
              ElementsAre("fd00::102:300:0:1/64"));
  EXPECT_THAT(part_for("fd00:1::/48", "fd00:2::/64", "fd00:2::a:b:c:d", 1),
              ElementsAre("fd00:1:0:a:b:c:d:1/48"));
}

TEST(PartOfPool, PoolOfOneAddressForEachHost_GivesIt) {
  EXPECT_THAT(part_for("10.64.5.0/24", "10.0.0.0/24", "10.0.0.17", 9),
              ElementsAre("10.64.5.17/24"));
}

TEST(PartOfPool, PartEnds_WhereThatOfTheNextHostBegins) {
  EXPECT_THAT(part_for("10.64.0.0/22", "10.0.0.0/24", "10.0.0.17", 9),
              ElementsAre("10.64.0.69/22", "10.64.0.70/22", "10.64.0.71/22"));
  EXPECT_THAT(part_for("10.64.0.0/22", "10.0.0.0/24", "10.0.0.18", 1),
              ElementsAre("10.64.0.73/22"));
}

TEST(PartOfPool, SmallerThanTheNetwork_GivesNothing) {
  EXPECT_TRUE(part_for("10.64.0.0/25", "10.0.0.0/24", "10.0.0.17", 9).empty());
}

TEST(PortAddresses, InterfaceByNetwork_IsTheOneWithAnAddressInIt) {
  const Config config = on_host(std::string("[pools]\ntenants = 3\n") + kByNetwork + kLocalTenant);
  EXPECT_EQ(config.ports[0].interface, "eth7");
  EXPECT_THAT(written(config.ports[0].addresses),
              ElementsAre("10.64.17.1/16", "10.64.17.2/16", "10.64.17.3/16"));
}

TEST(PortAddresses, InterfaceByNetworkWithoutAddresses_HasItsOwnInTheNetwork) {
  std::vector<HostAddress> addresses = this_host();
  addresses.push_back(assigned("eth7", "10.0.0.200/24"));
  const std::string port = "[[port]]\nname = \"w\"\ninterface = \"10.0.0.0/24\"\n";
  EXPECT_THAT(written(on_host(port + kLocalTenant, addresses).ports[0].addresses),
              ElementsAre("10.0.0.17/24", "10.0.0.200/24"));
  const Config given =
      on_host(port + "addresses = [\"10.9.0.1/16\", \"10.9.0.2/31\"]\n" + kLocalTenant, addresses);
  EXPECT_THAT(written(given.ports[0].addresses), ElementsAre("10.9.0.1/16", "10.9.0.2/31"));
}

TEST(PortAddresses, SocketByNetwork_IsTheAddressInIt) {
  const Config config = on_host(
      "[[port]]\nname = \"udp\"\nsocket = \"10.0.0.0/8\"\n"
      "[[tenant]]\nname = \"t\"\naddresses = [\"udp\"]\n");
  EXPECT_EQ(config.ports[0].socket, parse_address("10.0.0.17"));
  EXPECT_THAT(written(config.ports[0].addresses), ElementsAre("10.0.0.17/0"));
  EXPECT_THAT(written(config.tenants[0].addresses), ElementsAre("10.0.0.17"));
}

TEST(PortAddresses, NetworksThatDoNotFitTheHost_AreNamedWithTheirLine) {
  const std::string port = "[[port]]\nname = \"wire\"\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"interface = \"10.1.0.0/24\"\n",
       "f:3: port.interface: no interface of this host has an address in 10.1.0.0/24"},
      {"socket = \"10.1.0.0/24\"\n",
       "f:3: port.socket: no interface of this host has an address in 10.1.0.0/24"},
      {"interface = \"0.0.0.0/0\"\n",
       "f:3: port.interface: more than one interface of this host has an address in 0.0.0.0/0: "
       "127.0.0.1 of lo, 10.0.0.17 of eth7"},
      {"socket = \"10.0.0.9/24\"\n", "f:3: port.socket: \"10.0.0.9/24\" is not a network"},
      {"interface = \"eth7/24\"\n", "f:3: port.interface: \"eth7/24\" is not a network"},
      {"socket = 7\n", "f:3: port.socket: must be a string"},
      {"interface = \"10.0.0.0/24\"\naddresses = [\"10.64.0.0/25\"]\n",
       "f:4: port.addresses: 10.64.0.0/25 has 7 bits for hosts, and the network 10.0.0.0/24 has 8"},
      {"interface = \"eth7\"\naddresses = [\"10.64.0.0/16\"]\n",
       "f:4: port.addresses: \"10.64.0.0/16\" is a network; give addresses in it, or interface ="}};
  for (const auto& [keys, message] : cases) {
    const std::string error = error_on_host(port + keys + kLocalTenant);
    EXPECT_THAT(error, HasSubstr(message));
    EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 0) << error;
  }
}

TEST(PortAddresses, TwoAddressesInTheNetwork_DoNotGiveAHostTwoParts) {
  std::vector<HostAddress> addresses = this_host();
  addresses.push_back(assigned("eth7", "10.0.0.200/24"));
  for (const std::string& port :
       {std::string(kByNetwork), std::string("[[port]]\nname = \"p\"\nsocket = \"10.0.0.0/24\"\n")})
    EXPECT_THAT(error_on_host(port + kLocalTenant, addresses),
                HasSubstr("this host has more than one address in 10.0.0.0/24: 10.0.0.17 of eth7, "
                          "10.0.0.200 of eth7"));
}

TEST(NamedPorts, TenantsGetFreeAddressesInTheirOrder_TemplatesTheRest) {
  const Config config = on_host(std::string("[pools]\ntenants = 5\n") + kByNetwork + R"(
[[tenant]]
name = "a"
addresses = ["wire", "198.18.0.1", "wire"]
[[tenant]]
name = "b"
addresses = ["10.64.17.2"]
[[tenant]]
name = "c"
addresses = ["wire"]
[[template]]
name = "s"
addresses = ["198.18.1.1-198.18.1.2", "wire"]
)");
  EXPECT_THAT(written(config.tenants[0].addresses),
              ElementsAre("10.64.17.1", "198.18.0.1", "10.64.17.3"));
  EXPECT_THAT(written(config.tenants[1].addresses), ElementsAre("10.64.17.2"));
  EXPECT_THAT(written(config.tenants[2].addresses), ElementsAre("10.64.17.4"));
  EXPECT_THAT(written(config.templates[0].addresses),
              ElementsAre("198.18.1.1", "198.18.1.2", "10.64.17.5"));
}

TEST(NamedPorts, NoAddressIsLeft_IsNamedOnce) {
  const std::string file = std::string("[pools]\ntenants = 1\n") + kByNetwork + R"([[tenant]]
name = "a"
addresses = ["wire"]
[[template]]
name = "s"
addresses = ["wire"]
)";
  EXPECT_THAT(error_on_host(file),
              HasSubstr("f:12: template.addresses: port \"wire\" has no address "
                        "left (it has 1)"));
  const std::string bare = "[[port]]\nname = \"p\"\ninterface = \"eth7\"\n";
  EXPECT_EQ(error_on_host(bare + "[[tenant]]\nname = \"a\"\naddresses = [\"p\"]\n"),
            "f:6: tenant.addresses: port \"p\" has no addresses; give it some");
}

TEST(NamedPorts, TemplatesThatNameLargePorts_AreRefusedBeforeTheyFillMemory) {
  std::string file = "[[port]]\nname = \"p\"\ninterface = \"e\"\naddresses = [";
  for (int i = 0; i < 8; ++i)
    file += "\"10.0." + std::to_string(i) + ".0-10.0." + std::to_string(i) + ".255/8\",";
  file += "]\n";
  std::string list;
  for (int i = 0; i < 1000; ++i) list += "\"p\",";
  for (int i = 0; i < 100; ++i)
    file += "[[template]]\nname = \"t" + std::to_string(i) + "\"\naddresses = [" + list + "]\n";
  EXPECT_THAT(error_on_host(file), HasSubstr("at most 8192 are possible"));
}

}  // namespace
}  // namespace softhca::configuration
