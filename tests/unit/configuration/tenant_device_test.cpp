// SPDX-License-Identifier: Apache-2.0

// Several devices of a tenant: how they are read, checked, compared and given to tenants on demand.
#include "daemon/configuration/tenant_device.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "daemon/configuration/config.hpp"
#include "daemon/configuration/resource_manager/on_demand.hpp"
#include "daemon/configuration/resource_manager/reload_plan.hpp"

namespace softhca::configuration {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Gid gid_of(const char* text) { return *parse_address(text); }

/// Three lines, so that a device that a test appends begins at line 4.
const std::string kTenantOfDevices = "[[tenant]]\nname = \"t\"\nshare = \"25%\"\n";
const std::string kFirstDevice =
    "[[tenant.device]]\nname = \"mlx5_0\"\naddresses = [\"198.18.0.1\"]\npci = \"0000:3b:00.0\"\n"
    "guid = \"0200:5eff:fe10:0001\"\n";
const std::string kTwoDevices =
    kTenantOfDevices + kFirstDevice +
    "[[tenant.device]]\nname = \"mlx5_1\"\nrate = \"400Gbit\"\nnuma = 1\n"
    "addresses = [\"198.18.0.2\", \"198.18.0.3\"]\n";

Config device_config(const std::string& text) {
  const auto config = parse_config(text, "test.toml");
  EXPECT_TRUE(config) << (config ? "" : config.error().message);
  return config ? *config : Config{};
}

std::string device_errors(const std::string& text) {
  const auto config = parse_config(text, "test.toml");
  return config ? "accepted" : config.error().message;
}

TEST(TenantDevices, AreReadWithTheirAddresses) {
  const Config config = device_config(kTwoDevices);
  const TenantConfig& tenant = config.tenants[0];
  EXPECT_THAT(tenant.addresses,
              ElementsAre(gid_of("198.18.0.1"), gid_of("198.18.0.2"), gid_of("198.18.0.3")));
  ASSERT_EQ(tenant.devices.size(), 2u);
  EXPECT_EQ(tenant.devices[0].pci, "0000:3b:00.0");
  EXPECT_EQ(parse_guid(tenant.devices[0].guid), 0x02005efffe100001u);
  EXPECT_EQ(tenant.devices[0].rate, PortRate::k100);
  EXPECT_STREQ(codes_of(tenant.devices[1].rate).text, "400 Gb/sec (4X NDR)");
  EXPECT_EQ(tenant.devices[1].numa, 1u);
  EXPECT_EQ(devices_of(tenant, config.device), tenant.devices);
}

TEST(TenantDevices, TenantWithoutAny_HasOneWithItsAddresses) {
  const Config config = device_config(kTenantOfDevices + "addresses = [\"198.18.0.1\"]\n");
  const auto devices = devices_of(config.tenants[0], config.device);
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(devices[0].name, "softhca0");
  EXPECT_EQ(devices[0].addresses, config.tenants[0].addresses);
}

TEST(TenantDevices, OnlyDeviceWithoutAddresses_HasThoseOfTheTenant) {
  const Config config = device_config(kTenantOfDevices +
                                      "addresses = [\"198.18.0.1\"]\n[[tenant.device]]\n"
                                      "rate = \"200Gbit\"\n");
  EXPECT_EQ(config.tenants[0].devices[0].addresses, config.tenants[0].addresses);
}

TEST(TenantDevices, NamesCountUpFromThatOfTheSection) {
  EXPECT_EQ(default_device_name("softhca0", 0), "softhca0");
  EXPECT_EQ(default_device_name("softhca0", 12), "softhca12");
  EXPECT_EQ(default_device_name("mlx5_7", 3), "mlx5_10");
  EXPECT_EQ(default_device_name("card", 1), "card1");
  const std::string device = "[[tenant.device]]\naddresses = [\"198.18.0.";
  const Config config = device_config(kTenantOfDevices + device + "1\"]\n" + device + "2\"]\n");
  EXPECT_EQ(config.tenants[0].devices[1].name, "softhca1");
}

TEST(TenantDevices, IdentifiersHaveTheFormOfTheKernel) {
  for (const char* bad : {"", "0", "0000:0000:0000:0000", "0200:5EFF:fe10:0001",
                          "0200:5eff:fe10:00011", "0200-5eff-fe10-0001"})
    EXPECT_FALSE(parse_guid(bad)) << bad;
  for (const char* good : {"0000:3b:00.0", "ffff:ff:1f.7"}) EXPECT_TRUE(is_pci_address(good));
  for (const char* bad :
       {"", "3b:00.0", "0000:3B:00.0", "0000:3b:20.0", "0000:3b:00.8", "0000:3b:00:0"})
    EXPECT_FALSE(is_pci_address(bad)) << bad;
}

struct DeviceMistake {
  std::string text;
  std::string place;   ///< "line: key" of the only error
  const char* advice;  ///< part of its text
};

TEST(TenantDevices, MistakeIsReportedOnceWithItsLine) {
  const std::string second = kTenantOfDevices + kFirstDevice + "[[tenant.device]]\n";
  const std::string own = second + "addresses = [\"198.18.0.2\"]\n";
  std::string many = kTenantOfDevices;
  for (int i = 1; i <= 17; ++i)
    many += "[[tenant.device]]\naddresses = [\"198.18.0." + std::to_string(i) + "\"]\n";
  const DeviceMistake mistakes[] = {
      {own + "name = \"mlx5_0\"\n", "11: tenant.device.name:", "taken by the device of line 4"},
      {own + "guid = \"0200:5eff:fe10:0001\"\n", "11: tenant.device.guid:", "of line 4"},
      {own + "pci = \"0000:3b:00.0\"\n", "11: tenant.device.pci:", "of line 4"},
      {own + "pci = \"3b:00.0\"\n", "11: tenant.device.pci:", "such as \"0000:3b:00.0\""},
      {own + "guid = \"1\"\n", "11: tenant.device.guid:", "must be like"},
      {own + "rate = \"300Gbit\"\n", "11: tenant.device.rate:", "\"400Gbit\""},
      {own + "numa = 1024\n", "11: tenant.device.numa:", "from 0 to 1023"},
      {second, "9: tenant.device.addresses:", "is missing"},
      {kTenantOfDevices + "[[tenant.device]]\n", "4: tenant.device.addresses:", "is missing"},
      {kTenantOfDevices + "[[tenant.device]]\naddresses = []\n",
       "5: tenant.device.addresses:", "is missing"},
      {kTenantOfDevices + "[[tenant.device]]\naddresses = [\"eth0\"]\n",
       "5: tenant.device.addresses:", "eth0"},
      {second + "addresses = [\"198.18.0.1\"]\n",
       "10: tenant.device.addresses:", "already given to the device of line 4"},
      {second + "addresses = [\"198.18.0.2\", \"198.18.0.2\"]\n",
       "10: tenant.device.addresses:", "already given to the same device"},
      {"[[tenant]]\nname = \"t\"\naddresses = [\"198.18.0.9\"]\n" + kFirstDevice,
       "3: tenant.addresses:", "list each address with its device only"},
      {many, "4: tenant.device:", "more than 16 times"},
      {kTwoDevices + "[[tenant]]\nname = \"u\"\naddresses = [\"198.18.0.2\"]\n",
       "16: tenant.addresses:", "already given to the tenant of line 1"},
      {"[[template]]\nname = \"t\"\n[[template.device]]\nguid = \"0200:5eff:fe10:0001\"\n",
       "4: template.device.guid:", "leave it out"},
  };
  for (const DeviceMistake& mistake : mistakes) {
    const std::string errors = device_errors(mistake.text);
    EXPECT_THAT(errors, testing::StartsWith("test.toml:" + mistake.place));
    EXPECT_THAT(errors, HasSubstr(mistake.advice));
    EXPECT_EQ(errors.find('\n'), std::string::npos) << errors;
  }
}

TEST(TenantDevices, ReloadChangesAddressesOnly) {
  const Config before = device_config(kTwoDevices);
  Config wanted = before;
  wanted.tenants[0].devices[1].addresses.pop_back();
  wanted.tenants[0].addresses.pop_back();
  EXPECT_THAT(
      plan_reload(before, wanted).texts(),
      ElementsAre("tenant t: device mlx5_1: addresses [198.18.0.2, 198.18.0.3] -> [198.18.0.2]"));
  EXPECT_TRUE(plan_reload(before, wanted).is_live());

  wanted = before;
  wanted.tenants[0].devices[1].rate = PortRate::k800;
  EXPECT_THAT(plan_reload(before, wanted).refusals(),
              ElementsAre("tenant t: device mlx5_1: rate \"400Gbit\" -> \"800Gbit\" (running "
                          "programs have found the device by it; restart the daemon to change "
                          "it)"));

  wanted = before;
  wanted.tenants[0].devices.pop_back();
  wanted.tenants[0].addresses.resize(1);
  EXPECT_FALSE(plan_reload(before, wanted).is_live());
  EXPECT_THAT(plan_reload(before, wanted).refusals()[0],
              testing::StartsWith("tenant t: device [\"mlx5_0\", \"mlx5_1\"] -> [\"mlx5_0\"] ("));
}

TEST(TenantDevices, TenantOnDemand_HasAnAddressForEach) {
  const Config config = device_config(
      kTwoDevices +
      "[[template]]\nname = \"small\"\n[[template.device]]\naddresses = [\"198.18.1.1\"]\n" +
      "[[template.device]]\naddresses = [\"198.18.2.1\", \"198.18.2.2\"]\n");
  const auto made = with_tenant(config, {.name = "web", .template_name = "small"});
  ASSERT_TRUE(made);
  const TenantConfig& web = (*made).tenants.back();
  EXPECT_THAT(web.addresses, ElementsAre(gid_of("198.18.1.1"), gid_of("198.18.2.1")));
  EXPECT_THAT(web.devices[1].addresses, ElementsAre(gid_of("198.18.2.1")));

  const auto none_left = with_tenant(*made, {.name = "mail", .template_name = "small"});
  ASSERT_FALSE(none_left);
  EXPECT_THAT(none_left.refusal().message,
              HasSubstr("template small, device softhca0, has no free address"));

  const auto too_few = with_tenant(
      config, {.name = "mail", .template_name = "small", .addresses = {gid_of("198.18.3.1")}});
  ASSERT_FALSE(too_few);
  EXPECT_THAT(too_few.refusal().message, HasSubstr("the template has 2 devices"));
}

}  // namespace
}  // namespace softhca::configuration
