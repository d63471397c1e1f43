// SPDX-License-Identifier: Apache-2.0

// Every kind of mistake an operator can make is reported with file, line, key and a way out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "daemon/configuration/config.hpp"
#include "daemon/configuration/schema/removed_keys.hpp"

namespace softhca::configuration {
namespace {

using testing::HasSubstr;

// Three lines, so that what a test appends begins at line 4.
const std::string kBareTenant = "[[tenant]]\nname = \"t\"\naddresses = [\"198.18.0.1\"]\n";
// Five lines, likewise from line 6.
const std::string kPort =
    "[[port]]\nname = \"p\"\ninterface = \"eth1\"\naddresses = [\"10.0.0.1/24\"]\n\n";

std::string errors_of(const std::string& text) {
  const auto config = parse_config(text, "test.toml");
  if (config) return "accepted";
  EXPECT_EQ(config.error().code, EINVAL);
  return config.error().message;
}

struct Mistake {
  const char* name;
  std::string text;
  const char* place;   ///< "line: key" of the only error
  const char* advice;  ///< part of its text
};

class ConfigMistake : public testing::TestWithParam<Mistake> {};

TEST_P(ConfigMistake, IsReportedOnceWithItsLineAndKey) {
  const std::string errors = errors_of(GetParam().text);
  EXPECT_THAT(errors, testing::StartsWith(std::string("test.toml:") + GetParam().place));
  EXPECT_THAT(errors, HasSubstr(GetParam().advice));
  EXPECT_EQ(errors.find('\n'), std::string::npos) << errors;
}

std::string times(std::size_t count, std::string_view text) {
  std::string out;
  while (count-- > 0) out += text;
  return out;
}

TEST(ConfigDocument, WhatWouldExhaustTheParserIsRefused) {
  const std::string texts[] = {"[[[",
                               "[[ [",
                               "#\n  [[=",
                               "[#",
                               "a = 1\n [ \t=",
                               "\xef\xbb\xbf[#",
                               "\xef\xbb\xbf\xef\xbb\xbf",
                               "a\xef\xbb\xbf = 1",
                               "a = \xc3\xa9",
                               "a = " + times(9999, "["),
                               "a = " + times(9999, "{a="),
                               times(300000, "a.") + "a = 1",
                               "[" + times(300000, "a.") + "a]",
                               times(1 << 18, "#abc\n"),
                               "a = \"\\",
                               "a = '''\n"};
  for (const std::string& text : texts)
    EXPECT_NE(errors_of(text), "accepted") << text.substr(0, 20);
  for (const std::string& text :
       {"#[[[" + times(99, "["), "# " + times(99, "."), std::string("\xef\xbb\xbf# \xc3\xa9")})
    EXPECT_EQ(errors_of(text + "\n" + kBareTenant), "accepted") << text;
  EXPECT_THAT(errors_of(kBareTenant + "a = \"" + times(99, "[.") + "\\\"[[[\""),
              HasSubstr("tenant.a"));
}

TEST(ConfigDocument, WhatIsWrongTakesOneLine) {
  EXPECT_EQ(errors_of("a = t\n").find('\n'), std::string::npos);
}

const Mistake kSyntaxAndTypes[] = {
    {"Syntax", kBareTenant + "vcbs = = 3\n", "4: ", ""},
    {"UnknownSection", kBareTenant + "[pool]\n",
     "4: pool:", "known here: daemon, admin, metrics, pools, doorbells"},
    {"UnknownKey", kBareTenant + "vcb = 3\n", "4: tenant.vcb:", "vcbs_per_process"},
    {"UnknownKeyInInlineTable", kBareTenant + "\nsocket = { mod = 0o600 }\n",
     "5: tenant.socket.mod:", "owner, group, mode"},
    {"StringForInteger", kBareTenant + "vcbs = \"3\"\n",
     "4: tenant.vcbs:", "must be an integer, not a string"},
    {"NumberForInteger", kBareTenant + "vcbs = 3.0\n",
     "4: tenant.vcbs:", "an integer, not a number"},
    {"IntegerForBoolean", kBareTenant + "shared = 1\n", "4: tenant.shared:", "true or false"},
    {"DateForString", kBareTenant + "[metrics]\naddress = 2020-01-01\n",
     "5: metrics.address:", "must be a string, not a date"},
    {"StringForList", kBareTenant + "[[tenant]]\nname = \"u\"\naddresses = \"198.18.0.2\"\n",
     "6: tenant.addresses:", "must be an array of strings"},
    {"IntegerInList", "[[tenant]]\nname = \"u\"\naddresses = [\n \"198.18.0.2\",\n 7]\n",
     "5: tenant.addresses:", "must hold strings only"},
    {"ValueForTable", "daemon = 3\n" + kBareTenant, "1: daemon:", "must be a table"},
    {"TableForList", "[tenant]\nname = \"t\"\n", "1: tenant:", "[[tenant]]"},
    {"EmptyListOfTables", "tenant = []\n", "1: tenant:", "at least one [[tenant]]"},
    {"ValueInListOfTables", "tenant = [ 3 ]\n", "1: tenant:", "[[tenant]]"},
};
INSTANTIATE_TEST_SUITE_P(SyntaxAndTypes, ConfigMistake, testing::ValuesIn(kSyntaxAndTypes),
                         [](const auto& param) { return param.param.name; });

const Mistake kValues[] = {
    {"Negative", kBareTenant + "vcbs = -1\n", "4: tenant.vcbs:", "is -1, must be from 0 to"},
    {"TooLarge", kBareTenant + "vcbs_per_process = 65\n", "4: tenant.vcbs_per_process:", "to 64"},
    {"LimitBeyondItsPool", kBareTenant + "queue_pairs = 9\n[pools]\nqueue_pairs = 8\n",
     "4: tenant.queue_pairs:", "must be from 0 to 8 (pools.queue_pairs)"},
    {"UnknownUnit", kBareTenant + "registered_bytes = \"64KB\"\n",
     "4: tenant.registered_bytes:", "is \"64KB\", must be a number, alone or with a unit"},
    {"UnitOfACount", kBareTenant + "queue_pairs = \"1K\"\n",
     "4: tenant.queue_pairs:", "an integer"},
    {"UnitBeyondTheRange", kBareTenant + "rate = { bytes_per_second = \"100000Tbit\" }\n",
     "4: tenant.rate.bytes_per_second:", "is \"100000Tbit\", must be from 0 to"},
    {"NegativeLimit", kBareTenant + "registered_bytes = -1\n",
     "4: tenant.registered_bytes:", "must be from 0"},
    {"ZeroPool", kBareTenant + "[pools]\npcbs = 0\n", "5: pools.pcbs:", "must be from 1"},
    {"RelativeRuntimeDir", kBareTenant + "[daemon]\nruntime_dir = \"run\"\n",
     "5: daemon.runtime_dir:", "absolute"},
    {"LogLevel", kBareTenant + "[daemon]\nlog_level = \"loud\"\n", "5: daemon.log_level:", "trace"},
    {"DoorbellThreshold", kBareTenant + "[doorbells]\nentries = 8\nthreshold = 8\n",
     "6: doorbells.threshold:", "must be from 0 to 7 (below entries)"},
    {"FewDoorbells", kBareTenant + "[doorbells]\nentries = 8\n",
     "4: doorbells.threshold:", "is 256 where not given; it must be below entries"},
    {"Prune", kBareTenant + "[doorbells]\nprune = \"oldest\"\n",
     "5: doorbells.prune:", "\"most-overflow\""},
    {"Idle", kBareTenant + "[daemon]\nidle = \"lazy\"\n", "5: daemon.idle:", "\"poll\""},
    {"EngineCpu", kBareTenant + "[daemon]\nengine_cpu = 5000\n", "5: daemon.engine_cpu:", "4095"},
    {"MetricsAddress", kBareTenant + "[metrics]\naddress = \"9465\"\n",
     "5: metrics.address:", "127.0.0.1:9465"},
    {"MetricsPort", kBareTenant + "[metrics]\naddress = \"127.0.0.1:0\"\n",
     "5: metrics.address:", ""},
    {"MetricsBareIpv6", kBareTenant + "[metrics]\naddress = \"::1:80\"\n",
     "5: metrics.address:", "[::1]"},
    {"MetricsLinkLocal", kBareTenant + "[metrics]\naddress = \"[fe80::1]:80\"\n",
     "5: metrics.address:", "not link-local"},
    {"DeviceName", kBareTenant + "[device]\nname = \"a/b\"\n", "5: device.name:", "letters"},
    {"RemovedKey", kBareTenant + "[device]\nvendor_id = 1\n",
     "5: device.vendor_id:", "was removed: its former default is fixed now; delete the line"},
    {"RemovedKeyOfTheDaemon", kBareTenant + "[daemon]\npark_after_us = 9\n",
     "5: daemon.park_after_us:", "parked after 200 us"},
    {"RemovedKeyOfATenant", kBareTenant + "most_vcbs_per_process = 9\n",
     "4: tenant.most_vcbs_per_process:", "up to 64 VCBs"},
    {"RemovedKeyOfATemplate", "[[template]]\nname = \"x\"\ndedicated_execution_credits = 9\n",
     "3: template.dedicated_execution_credits:", "has 32"},
    {"RemovedKeyOfAnInlineTable", kBareTenant + "srq = { runaways = false }\n",
     "4: tenant.srq.runaways:", "was removed"},
    {"RemovedKeyOfAllConnections", kBareTenant + "[connections]\nbacklog = 9\n",
     "5: connections.backlog:", "half_open"},
    {"RemovedKeyOfATenantsConnections", kBareTenant + "connections = { backlog = 9 }\n",
     "4: tenant.connections.backlog:", "half_open"},
    {"RemovedKeyOfATvl", kBareTenant + "[[tenant.tvl]]\ntvl_burst_bytes = 1\n",
     "5: tenant.tvl.tvl_burst_bytes:", "was removed"},
    {"RemovedKeyOfBothServices", kBareTenant + "[shared_datagrams]\nwindow_ms = 1\n",
     "5: shared_datagrams.window_ms:", "was removed"},
    {"NoTenant", "[pools]\n", "1: tenant:", "at least one [[tenant]]"},
    {"PortAddressWithoutPrefix",
     kBareTenant + "[[port]]\nname = \"p\"\ninterface = \"eth1\"\naddresses = [\"10.0.0.1\"]\n",
     "7: port.addresses:", "write \"10.0.0.1/24\""},
    {"TenantWithoutName", "[[tenant]]\naddresses = [\"198.18.0.1\"]\n",
     "1: tenant.name:", "is missing"},
    {"TenantNameLeavesItsFolder", "[[tenant]]\nname = \"../x\"\naddresses = [\"198.18.0.1\"]\n",
     "2: tenant.name:", "letters, digits"},
    {"TenantWithoutAddress", "[[tenant]]\nname = \"t\"\n", "1: tenant.addresses:", "at least one"},
    {"TenantWithEmptyAddresses", "[[tenant]]\nname = \"t\"\naddresses = []\n",
     "3: tenant.addresses:", "at least one"},
    {"TenantAddressWithPrefix", "[[tenant]]\nname = \"t\"\naddresses = [\"10.0.0.1/24\"]\n",
     "3: tenant.addresses:", "without prefix"},
    {"TenantRangeTooLarge", "[[tenant]]\nname = \"t\"\naddresses = [\"10.0.0.0-10.1.0.0\"]\n",
     "3: tenant.addresses:", "a range of up to 256"},
    {"TenantMulticast", "[[tenant]]\nname = \"t\"\naddresses = [\"224.0.0.1\"]\n",
     "3: tenant.addresses:", "not the address of a host"},
    {"SocketMode", kBareTenant + "socket = { mode = 660 }\n", "4: tenant.socket.mode:", "0o660"},
    {"NoTvls", kBareTenant + "tvls = 0\n", "4: tenant.tvls:", "from 1 to"},
    {"TvlsTwice", kBareTenant + "tvls = 2\n[[tenant.tvl]]\n",
     "4: tenant.tvls:", "only one of them"},
    {"TvlWeight", kBareTenant + "[[tenant.tvl]]\nweight = 0\n", "5: tenant.tvl.weight:", "from 1"},
    {"TemplateWithoutName", "[[template]]\n", "1: template.name:", "is missing"},
    {"TemplateTwice", kBareTenant + "[[template]]\nname = \"x\"\n[[template]]\nname = \"x\"\n",
     "7: template.name:", "already taken by the template of line 4"},
    {"TemplateLevel", "[[template]]\nname = \"x\"\n[[template.level]]\nname = \"l\"\npcbs = 1\n",
     "5: template.level.pcbs:", "takes 1"},
    {"TemplateTvls", "[[template]]\nname = \"x\"\n[[template.tvl]]\nweight = 0\n",
     "4: template.tvl.weight:", "from 1"},
    {"TemplateUnknownKey", "[[template]]\nname = \"x\"\nvcb = 1\n", "3: template.vcb:", ""},
    {"TemplateHardCap", "[[template]]\nname = \"x\"\nshared = false\n",
     "3: template.shared:", "give every TVL both"},
    {"TemplateAddress",
     kPort + kBareTenant + "[[template]]\nname = \"x\"\naddresses = [\"10.0.0.2\"]\n",
     "11: template.addresses:", "add it to that port's addresses"},
    {"HardCapWithoutCredits", kBareTenant + "shared = false\nexecution_credits = 4\n",
     "4: tenant.shared:", "give every TVL both"},
};
INSTANTIATE_TEST_SUITE_P(Values, ConfigMistake, testing::ValuesIn(kValues),
                         [](const auto& param) { return param.param.name; });

const Mistake kPortMistakes[] = {
    {"Unnamed", "[[port]]\ninterface = \"eth1\"\n" + kBareTenant, "1: port.name:", "is missing"},
    {"NoDevice", "[[port]]\nname = \"p\"\n" + kBareTenant, "1: port.interface:", "device ="},
    {"InterfaceAndSocket", kPort + "socket = \"10.0.0.1\"\n" + kBareTenant,
     "3: port.interface:", "give exactly one of"},
    {"SocketThatIsNoAddress", "[[port]]\nname = \"p\"\nsocket = \"10.0.0.1:4791\"\n" + kBareTenant,
     "3: port.socket:", ""},
    {"SocketWithAddresses",
     "[[port]]\nname = \"p\"\nsocket = \"10.0.0.1\"\naddresses = [\"10.0.0.1/24\"]\n" + kBareTenant,
     "4: port.addresses:", "the kernel routes"},
    {"SocketWithVlan", "[[port]]\nname = \"p\"\nsocket = \"10.0.0.1\"\nvlan = 7\n" + kBareTenant,
     "4: port.vlan:", "the kernel routes"},
    {"SocketTwice",
     "[[port]]\nname = \"p\"\nsocket = \"10.0.0.1\"\n"
     "[[port]]\nname = \"q\"\nsocket = \"10.0.0.1\"\n" +
         kBareTenant,
     "6: port.socket:", "10.0.0.1 is already given"},
    {"TwoDevices",
     "[[port]]\nname = \"p\"\ninterface = \"eth1\"\ndevice = \"net_tap0\"\n" + kBareTenant,
     "3: port.interface:", "give exactly one of"},
    {"ThreeInterfaces", "[[port]]\nname = \"p\"\ninterface = \"eth1, eth2, eth3\"\n" + kBareTenant,
     "3: port.interface:", "two different ones"},
    {"OneInterfaceTwice", "[[port]]\nname = \"p\"\ninterface = \"eth1,eth1\"\n" + kBareTenant,
     "3: port.interface:", "two different ones"},
    {"NetworkWithBackup",
     "[[port]]\nname = \"p\"\ninterface = \"10.0.0.0/24, eth1\"\n" + kBareTenant,
     "3: port.interface:", "is not a network"},
    {"NoSecondInterface", "[[port]]\nname = \"p\"\ninterface = \"eth1,\"\n" + kBareTenant,
     "3: port.interface:", "network interface"},
    {"ControlCharacterInInterface",
     "[[port]]\nname = \"p\"\ninterface = \"eth1, eth2\\u0000x\"\n" + kBareTenant,
     "3: port.interface:", "network interface"},
    {"InterfaceOfAnotherPort",
     kPort + "[[port]]\nname = \"q\"\ninterface = \"eth2, eth1\"\n" + kBareTenant,
     "8: port.interface:", "already taken by the port of line 1"},
    {"InterfaceName", "[[port]]\nname = \"p\"\ninterface = \"eth1,qdisc_bypass=0\"\n" + kBareTenant,
     "3: port.interface:", "ip link"},
    {"Address",
     "[[port]]\nname = \"p\"\ninterface = \"e\"\naddresses = [\"10.0.0.1/33\"]\n" + kBareTenant,
     "4: port.addresses:", "10.0.0.1/24"},
    {"GatewayFamily", kPort + "gateway6 = \"10.0.0.2\"\n" + kBareTenant,
     "6: port.gateway6:", "IPv6"},
    {"GatewayElsewhere", kPort + "gateway4 = \"10.0.1.2\"\n" + kBareTenant,
     "6: port.gateway4:", "prefix length"},
    {"Vlan", kPort + "vlan = 4095\n" + kBareTenant, "6: port.vlan:", "to 4094"},
    {"Mtu", kPort + "mtu = 68\n" + kBareTenant, "6: port.mtu:", "from 576"},
    {"FaultOfAPort", kPort + "fault = { loss = 0.5 }\n" + kBareTenant,
     "6: port.fault:", "softhcactl fault add"},
    {"CaptureOfAPort", kPort + "capture = { file = \"/tmp/x\" }\n" + kBareTenant,
     "6: port.capture:", "softhcactl capture"},
    {"NeighbourWithoutLinkAddress",
     "[[port]]\nname = \"p\"\ninterface = \"e\"\nneighbours = [\"10.0.0.2\"]\n" + kBareTenant,
     "4: port.neighbours:", "must be an address and a link address"},
    {"NeighbourTwice",
     "[[port]]\nname = \"p\"\ninterface = \"e\"\nneighbours = [\"10.0.0.2=02:00:00:00:00:02\", "
     "\"10.0.0.2=02:00:00:00:00:03\"]\n" +
         kBareTenant,
     "4: port.neighbours:", "has two link addresses for 10.0.0.2"},
    {"SameName", kPort + "[[port]]\nname = \"p\"\ninterface = \"eth2\"\n" + kBareTenant,
     "7: port.name:", "port of line 1"},
    {"SameInterface", kPort + "[[port]]\nname = \"q\"\ninterface = \"eth1\"\n" + kBareTenant,
     "8: port.interface:", "port of line 1"},
    {"SameAddress",
     kPort + "[[port]]\nname = \"q\"\ninterface = \"eth2\"\naddresses = [\"10.0.0.1/8\"]\n" +
         kBareTenant,
     "9: port.addresses:", "port of line 1"},
    {"SameAddressOnOnePort",
     "[[port]]\nname = \"q\"\ninterface = \"e\"\naddresses = [\"10.0.0.1/8\", \"10.0.0.1/9\"]\n" +
         kBareTenant,
     "4: port.addresses:", "10.0.0.1 is already given"},
    {"TenantAddressThePortDoesNotHave",
     kPort + "[[tenant]]\nname = \"t\"\naddresses = [\"10.0.0.2\"]\n",
     "8: tenant.addresses:", "add it to that port's addresses"},
};
INSTANTIATE_TEST_SUITE_P(Ports, ConfigMistake, testing::ValuesIn(kPortMistakes),
                         [](const auto& param) { return param.param.name; });

// Two tenants of which the second begins at line 4.
std::string second_tenant(const std::string& name, const std::string& address) {
  return kBareTenant + "[[tenant]]\nname = \"" + name + "\"\naddresses = [\"" + address + "\"]\n";
}

const Mistake kTogether[] = {
    {"SameTenantName", second_tenant("t", "198.18.0.2"), "5: tenant.name:", "tenant of line 1"},
    {"SameTenantAddress", second_tenant("u", "198.18.0.1"),
     "6: tenant.addresses:", "tenant of line 1"},
    {"Pcbs", second_tenant("u", "198.18.0.2") + "pcbs = 8000\n", "7: tenant.pcbs:",
     "guarantees 8000, but only 7936 of pools.pcbs = 8192, less pools.dedicated_pcbs = 256, are "
     "left"},
    {"Vcbs", second_tenant("u", "198.18.0.2") + "vcbs = 4097\n",
     "7: tenant.vcbs:", "only 4096 of pools.vcbs = 4096 are left"},
    {"Tvls", second_tenant("u", "198.18.0.2") + "tvls = 2\n[pools]\ntvls = 2\n",
     "7: tenant.tvls:", "only 1 of pools.tvls = 2 are left"},
    {"ExecutionCredits", second_tenant("u", "198.18.0.2") + "tvls = 2\nexecution_credits = 513\n",
     "8: tenant.execution_credits:",
     "guarantees 1026, but only 1024 of pools.execution_credits = 1024 are left"},
    {"CompletionCredits",
     second_tenant("u", "198.18.0.2") + "[[tenant.tvl]]\n"
                                        "completion_credits = 9000\n",
     "4: tenant.completion_credits:", "guarantees 9000"},
    {"DedicatedPcbs", kBareTenant + "[pools]\npcbs = 8\ndedicated_pcbs = 9\n",
     "6: pools.dedicated_pcbs:", "is 9, more than pools.pcbs = 8"},
    {"GeneralServicesBuffers", kBareTenant + "[general_services]\nbuffers = 31\n",
     "5: general_services.buffers:", "is 31, but the daemon's own clients need 32 for 1 tenants"},
    {"SocketPath", "[daemon]\nruntime_dir = \"/" + std::string(99, 'd') + "\"\n" + kBareTenant,
     "4: tenant.name:", "shorten"},
};
INSTANTIATE_TEST_SUITE_P(Together, ConfigMistake, testing::ValuesIn(kTogether),
                         [](const auto& param) { return param.param.name; });

TEST(ConfigMistakes, AreAllReportedInTheOrderOfLines) {
  const std::string errors = errors_of(
      "[[tenant]]\nname = 3\naddresses = [\"nowhere\"]\nvcbs = -1\nfoo = 1\n"
      "[pools]\npcbs = 0\n[metrics]\naddress = \"x\"\n");
  std::size_t last = 0;
  for (const char* place :
       {"test.toml:2: tenant.name:", "test.toml:3: tenant.addresses:", "test.toml:4: tenant.vcbs:",
        "test.toml:5: tenant.foo:", "test.toml:7: pools.pcbs:", "test.toml:9: metrics.address:"}) {
    const std::size_t at = errors.find(place);
    EXPECT_NE(at, std::string::npos) << place << " in\n" << errors;
    EXPECT_GE(at, last);
    last = at;
  }
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 5) << errors;
}

/// As saved changes name keys: with the inner table before it.
TEST(RemovedKeys, SettingOfATenant_KnownByItsDottedName) {
  EXPECT_TRUE(removal_of("tenant", "connections.backlog"));
  EXPECT_TRUE(removal_of("tenant", "most_vcbs_per_process"));
  EXPECT_FALSE(removal_of("tenant", "vcbs_per_process"));
  EXPECT_FALSE(removal_of("tenant", "srq.limit"));
}

TEST(ConfigErrors, KnownKeysAreNamedOnce) {
  const std::string errors = errors_of(kBareTenant + "[pool]\n");
  const auto first = errors.find("tenant");
  ASSERT_NE(first, std::string::npos) << errors;
  EXPECT_EQ(errors.find("tenant", first + 1), std::string::npos) << errors;
}

/// What load_config() says of a file with this text.
std::string errors_of_file(const std::string& text) {
  const std::string path = testing::TempDir() + "/config_errors_test.toml";
  std::ofstream(path) << text;
  const auto config = load_config(path);
  return config ? "accepted" : config.error().message;
}

TEST(ConfigFile, EmptyOrUnreadable) {
  EXPECT_THAT(errors_of_file(""), HasSubstr("at least one [[tenant]]"));
  const auto folder = load_config(testing::TempDir());
  ASSERT_FALSE(folder);
  EXPECT_THAT(folder.error().message, HasSubstr("cannot be read: Is a directory"));
  const auto missing = load_config(testing::TempDir() + "/no/such.toml");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("cannot be read: No such file"));
  const std::string fifo = testing::TempDir() + "/config_errors_test.fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const auto blocking = load_config(fifo);
  ::unlink(fifo.c_str());
  ASSERT_FALSE(blocking);
  EXPECT_THAT(blocking.error().message, HasSubstr("cannot be read: Is a FIFO"));
}

TEST(ConfigFile, NamesWhatTheMachineLacks) {
  EXPECT_EQ(errors_of_file(kBareTenant + "socket = { owner = \"root\", group = \"4711\" }\n"
                                         "[daemon]\nengine_cpu = 0\n"),
            "accepted");
  EXPECT_THAT(errors_of_file(kBareTenant + "socket = { owner = \"no-such-user\" }\n"),
              HasSubstr(":4: tenant.socket.owner: no user 'no-such-user'"));
  EXPECT_THAT(errors_of_file(kBareTenant + "\nsocket = { group = \"no-such-group\" }\n"),
              HasSubstr(":5: tenant.socket.group: no group 'no-such-group'"));
  EXPECT_THAT(errors_of_file(kBareTenant + "socket = { owner = \"4294967295\" }\n"),
              HasSubstr(":4: tenant.socket.owner: no user '4294967295'"));
  EXPECT_THAT(errors_of_file(kBareTenant + "[daemon]\nengine_cpu = 4095\n"),
              HasSubstr(":5: daemon.engine_cpu: is 4095, but this host has the cores 0 to "));
  EXPECT_THAT(errors_of_file(kBareTenant + "[[port]]\nname = \"p\"\ninterface = \"no-such-if\"\n"),
              HasSubstr(":6: port.interface: this host has no interface no-such-if"));
  const std::string socket = kBareTenant + "[[port]]\nname = \"p\"\nsocket = ";
  EXPECT_EQ(errors_of_file(socket + "\"127.0.0.1\"\n"), "accepted");
  EXPECT_THAT(errors_of_file(socket + "\"192.0.2.1\"\n"),
              HasSubstr(":6: port.socket: no interface of this host has the address 192.0.2.1"));
  const std::string port = kBareTenant + "[[port]]\nname = \"p\"\ninterface = \"lo\"\n";
  EXPECT_EQ(errors_of_file(port), "accepted");
}

TEST(ConfigFile, NamesUnknownUsersAndGroupsWhereverTheyStand) {
  const std::string good = R"(
[[tenant.level]]
name = "l"
users = ["root", "4711"]
groups = ["root", "4711"]
)";
  EXPECT_EQ(errors_of_file(kBareTenant + good), "accepted");
  const std::string errors = errors_of_file(kBareTenant + R"(socket = { group = "nogroup1" }
control = { owner = "nouser1" }
[[tenant.level]]
name = "l"
users = ["root", "nouser2",
         "nouser3"]
groups = ["nogroup2"]
[tenant.level.socket]
owner = "nouser4"
group = "nogroup3"
[admin]
socket = { group = "nogroup4" }
[[template]]
name = "x"
socket = { owner = "nouser5" }
[[template.level]]
name = "l"
users = ["nouser6"]
)");
  for (const char* place :
       {":4: tenant.socket.group: no group 'nogroup1'",
        ":5: tenant.control.owner: no user 'nouser1'", ":8: tenant.level.users: no user 'nouser2'",
        ":9: tenant.level.users: no user 'nouser3'",
        ":10: tenant.level.groups: no group 'nogroup2'",
        ":12: tenant.level.socket.owner: no user 'nouser4'",
        ":13: tenant.level.socket.group: no group 'nogroup3'",
        ":15: admin.socket.group: no group 'nogroup4'",
        ":18: template.socket.owner: no user 'nouser5'",
        ":21: template.level.users: no user 'nouser6'"})
    EXPECT_THAT(errors, HasSubstr(place));
  EXPECT_EQ(std::count(errors.begin(), errors.end(), '\n'), 9) << errors;
}

}  // namespace
}  // namespace softhca::configuration
