// SPDX-License-Identifier: Apache-2.0

// [[peer]], and the files with its keys.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "daemon/configuration/config.hpp"
#include "daemon/configuration/resource_manager/reload_plan.hpp"
#include "daemon/configuration/schema/key_file.hpp"

namespace softhca::configuration {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kTenantOfPeers = "[[tenant]]\nname = \"t\"\naddresses = [\"198.18.0.1\"]\n";
const std::string kOne = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
const std::string kTwo = "FF0102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F";

class KeyFile : public testing::Test {
 protected:
  KeyFile() {
    std::string pattern = testing::TempDir() + "softhca-keys.XXXXXX";
    folder = mkdtemp(pattern.data());
  }
  ~KeyFile() override { std::filesystem::remove_all(folder); }

  std::string write(const std::string& name, const std::string& text, mode_t mode = 0600) {
    std::string path = folder + "/" + name;
    std::ofstream(path) << text;
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }
  static std::string error_of(const Expected<std::vector<PeerSecret>>& keys) {
    return keys ? "accepted" : keys.error().message;
  }
  /// Loads a configuration from a file, as the daemon does.
  Expected<Config> load(const std::string& peers) {
    return load_config(write("softhca.toml", kTenantOfPeers + peers));
  }

  std::string folder;
};

TEST_F(KeyFile, HoldsAKeyALine) {
  const auto keys = read_key_file(write("k", "# of May\n" + kOne + "\n\n  " + kTwo + " \r\n"));
  ASSERT_TRUE(keys) << keys.error().message;
  ASSERT_EQ(keys->size(), 2u);
  for (std::size_t i = 1; i < 32; ++i) EXPECT_EQ((*keys)[0][i], std::byte(i));
  EXPECT_EQ((*keys)[0][0], std::byte{0});
  EXPECT_EQ((*keys)[1][0], std::byte{0xff});
  EXPECT_TRUE(read_key_file(write("k", kOne))) << "without an end of line";
  EXPECT_TRUE(read_key_file(write("k", kOne, 0400)));
}

TEST_F(KeyFile, WithMistakesIsRefusedAndNothingOfItIsShown) {
  const auto expect = [&](const std::string& text, const char* error) {
    const std::string got = error_of(parse_keys(text));
    EXPECT_THAT(got, HasSubstr(error));
    EXPECT_THAT(got, testing::Not(HasSubstr("0203"))) << "a part of the key";
  };
  expect("", "holds no key");
  expect("# nothing\n\n", "holds no key");
  expect(kOne + "\n" + kOne.substr(1) + "\n", "line 2: not a key");
  expect(kOne + "0", "line 1: not a key");
  expect("0x" + kOne.substr(2), "line 1: not a key");
  expect(kOne + "\n" + kOne + "\n", "line 2: the key is in an earlier line, too");
  expect(std::string(64, '0'), "line 1: the key repeats one byte");
  std::string five;
  for (char c : {'0', '1', '2', '3', '4'}) five += std::string("a") + c + kOne.substr(2) + "\n";
  expect(five, "line 5: one key too many; a file may hold 4");
}

TEST_F(KeyFile, ThatOthersMayReadIsRefused) {
  for (const mode_t mode : {0640u, 0604u, 0660u, 0620u, 0602u, 0610u})
    EXPECT_THAT(error_of(read_key_file(write("k", kOne, mode))), HasSubstr("chmod 600")) << mode;
  EXPECT_THAT(error_of(read_key_file(folder)), HasSubstr("is not a regular file"));
  EXPECT_THAT(error_of(read_key_file(folder + "/none")), HasSubstr("No such file"));
  EXPECT_THAT(error_of(read_key_file(write("k", kOne + "\n#" + std::string(20000, 'x')))),
              HasSubstr("longer than 16384 bytes"));
  const std::string fifo = folder + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(error_of(read_key_file(fifo)), HasSubstr("is not a regular file"))
      << "it is not waited for";
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const std::string foreign = write("k", kOne);
  ASSERT_EQ(chown(foreign.c_str(), 4711, 4711), 0);
  EXPECT_THAT(error_of(read_key_file(foreign)), HasSubstr("neither root nor"));
}

TEST_F(KeyFile, IsReadWithTheConfiguration) {
  const std::string file = write("k", kOne);
  const std::string peer =
      "[[peer]]\nname = \"r\"\naddresses = [\"10.0.0.0/24\", \"fd00::2\"]\nkey_file = \"" + file +
      "\"\nplain = \"allow\"\n";
  const auto config = load(peer);
  ASSERT_TRUE(config) << config.error().message;
  ASSERT_EQ(config->peers.size(), 1u);
  const PeerConfig& read = config->peers[0];
  EXPECT_EQ(read.name, "r");
  EXPECT_EQ(read.plain, PlainPackets::kAllow);
  ASSERT_EQ(read.addresses.size(), 2u);
  EXPECT_EQ(read.addresses[0].length, 24);
  EXPECT_EQ(read.addresses[1].length, 128);
  EXPECT_EQ(read.secrets.size(), 1u);

  write("k", kTwo + "\n" + kOne + "\n");
  const auto rotated = load(peer);
  ASSERT_TRUE(rotated);
  const ReloadPlan plan = plan_reload(*config, *rotated);
  EXPECT_TRUE(plan.is_live());
  EXPECT_THAT(plan.texts(), ElementsAre("peer r: keys 1 -> 2 (new, key 1 before)"));
  EXPECT_TRUE(plan_reload(*rotated, *load(peer)).empty());

  chmod(file.c_str(), 0644);
  const auto open = load(peer);
  ASSERT_FALSE(open);
  EXPECT_THAT(open.error().message, HasSubstr("softhca.toml:7: peer.key_file: " + file));
}

TEST(PeerConfig, PlainPacketsAreRefusedWhereNothingIsSaid) {
  const auto config = parse_config(kTenantOfPeers +
                                       "[[peer]]\nname = \"all\"\naddresses = "
                                       "[\"0.0.0.0/0\", \"::/0\"]\n",
                                   "t.toml");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->peers[0].plain, PlainPackets::kRefuse);
  EXPECT_EQ(config->peers[0].addresses[0].length, 0);
}

TEST(PeerConfig, MistakesAreReportedWithLineAndKey) {
  const auto expect = [](const std::string& text, const char* place, const char* advice) {
    const auto config = parse_config(kTenantOfPeers + text, "t.toml");
    ASSERT_FALSE(config) << text;
    EXPECT_THAT(config.error().message, StartsWith(std::string("t.toml:") + place));
    EXPECT_THAT(config.error().message, HasSubstr(advice));
    EXPECT_EQ(config.error().message.find('\n'), std::string::npos) << config.error().message;
  };
  const std::string peer = "[[peer]]\nname = \"r\"\naddresses = [\"10.0.0.5/24\"]\n";
  expect("[[peer]]\naddresses = [\"10.0.0.1\"]\n", "4: peer.name", "is missing");
  expect("[[peer]]\nname = \"r\"\n", "4: peer.addresses", "is missing");
  expect("[[peer]]\nname = \"r\"\naddresses = []\n", "6: peer.addresses", "is missing");
  expect("[[peer]]\nname = \"r\"\naddresses = [\"x\"]\n", "6: peer.addresses", "is not an address");
  expect(peer + "key_file = \"k\"\n", "7: peer.key_file", "absolute path");
  expect(peer + "plain = \"no\"\n", "7: peer.plain", "\"refuse\", \"allow\" or \"send\"");
  expect(peer + "[[peer]]\nname = \"r\"\naddresses = [\"10.1.0.0/16\"]\n", "8: peer.name",
         "already taken by the peer of line 4");
  expect(peer + "[[peer]]\nname = \"s\"\naddresses = [\"10.0.0.9/24\"]\n", "9: peer.addresses",
         "10.0.0.9/24 is already given to the peer of line 4");
  expect("[[peer]]\nname = \"r\"\naddresses = [\"::/0\", \"::/0\"]\n", "6: peer.addresses",
         "already given");
}

TEST(PeerConfig, ChangesAreLiveAndNameThePeer) {
  Config before = default_config();
  PeerConfig& peer = before.peers.emplace_back();
  peer.name = "r";
  peer.addresses = {{Gid::from_ipv4(0x0a000000), 24}};
  peer.secrets = {PeerSecret{}};
  const auto texts = [&](auto&& change) {
    Config after = before;
    change(after.peers);
    const ReloadPlan plan = plan_reload(before, after);
    EXPECT_TRUE(plan.is_live());
    return plan.texts();
  };
  using Peers = std::vector<PeerConfig>;
  EXPECT_THAT(texts([](Peers&) {}), ElementsAre());
  EXPECT_THAT(texts([](Peers& p) { p.clear(); }), ElementsAre("peer r: removed"));
  EXPECT_THAT(texts([](Peers& p) { p.emplace_back().name = "s"; }), ElementsAre("peer s: added"));
  EXPECT_THAT(texts([](Peers& p) { p[0].plain = PlainPackets::kSend; }),
              ElementsAre("peer r: plain \"refuse\" -> \"send\""));
  EXPECT_THAT(texts([](Peers& p) { p[0].addresses[0].length = 16; }),
              ElementsAre("peer r: addresses [10.0.0.0/24] -> [10.0.0.0/16]"));
  EXPECT_THAT(texts([](Peers& p) { p[0].key_file = "/k"; }),
              ElementsAre("peer r: key_file \"\" -> \"/k\""));
  EXPECT_THAT(texts([](Peers& p) { p[0].secrets[0][0] = std::byte{1}; }),
              ElementsAre("peer r: keys 1 -> 1 (new)"));
  EXPECT_THAT(texts([](Peers& p) { p[0].secrets.clear(); }), ElementsAre("peer r: keys 1 -> 0"));
}

}  // namespace
}  // namespace softhca::configuration
