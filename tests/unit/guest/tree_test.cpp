// SPDX-License-Identifier: Apache-2.0

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "guest/agent/tree_folder.hpp"
#include "guest/channel/tree_path.hpp"
#include "tests/unit/guest/guest_fixture.hpp"

namespace softhca::guest::test {
namespace {

namespace fs = std::filesystem;
using control::first_line;

TEST(TreePath, PathThatLeavesTheTree_Refused) {
  EXPECT_TRUE(is_tree_path("sysfs/class/infiniband"));
  for (const char* path : {"", "/etc", "a//b", "a/", "../a", "a/../../b", ".hidden", "a/.b", "a/."})
    EXPECT_FALSE(is_tree_path(path)) << path;
  EXPECT_FALSE(is_tree_path(std::string_view("a\0b", 3)));
  EXPECT_FALSE(is_tree_path(std::string(kMaxPath + 1, 'a')));
  EXPECT_FALSE(is_tree_path("1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17"));
}

TEST(TreePath, TargetThatLeavesTheTree_Refused) {
  EXPECT_TRUE(is_inner_link("a/b/c", "../../d"));
  EXPECT_TRUE(is_inner_link("a/b/c", "d/../../x"));
  for (const char* target : {"", "/sys/class/net/eth0", "../../../d", "../../d/../../x"})
    EXPECT_FALSE(is_inner_link("a/b/c", target)) << target;
}

TEST(TreePath, SocketNames) {
  EXPECT_TRUE(is_socket_name("socket"));
  EXPECT_TRUE(is_socket_name("gold.socket"));
  EXPECT_TRUE(is_socket_name("control.sock"));
  for (const std::string& name : {std::string("admin.sock"), std::string(".socket"),
                                  std::string("a/socket"), std::string(64, 'a') + ".socket"})
    EXPECT_FALSE(is_socket_name(name)) << name;
}

TEST(TreeFolder, LinkInPlaceOfAFolder_NotFollowed) {
  control::Folder folder, outside;
  TreeFolder tree;
  ASSERT_TRUE(tree.open(folder.path() + "/vm1"));
  fs::create_symlink(outside.path(), folder.path() + "/vm1/sysfs");
  EXPECT_TRUE(tree.write("sysfs/file", "x"));
  EXPECT_FALSE(fs::exists(outside.path() + "/file"));
  EXPECT_EQ(first_line(folder.path() + "/vm1/sysfs/file"), "x");
}

TEST(TreeFolder, FilesThatWereNotWritten_Removed) {
  control::Folder folder;
  TreeFolder tree;
  ASSERT_TRUE(tree.open(folder.path()));
  EXPECT_TRUE(tree.write("old/deep/file", "x"));
  ASSERT_TRUE(tree.open(folder.path()));
  EXPECT_TRUE(tree.write("new/file", "y"));
  EXPECT_TRUE(tree.link("link", "new/file"));
  tree.remove_others();
  EXPECT_FALSE(fs::exists(folder.path() + "/old"));
  EXPECT_EQ(first_line(folder.path() + "/link"), "y");
}

TEST_F(GuestTest, DeviceTree_LaidOutWithThePathsOfTheGuest) {
  const std::string host = host_.path() + "/vm1/sysfs/", guest = guest_.path() + "/vm1/sysfs/";
  std::ofstream(host + "class/rate") << "100 Gb/sec\n";
  std::ofstream(host + "class/.staged") << "x";
  std::ofstream(host + "class/large") << std::string(kMaxFileBytes + 1, 'x');
  fs::create_symlink("../class/rate", host + "class/inner");
  fs::create_symlink("/etc/passwd", host + "class/outer");
  fs::create_directories(guest + "stale");
  start();
  EXPECT_EQ(first_line(guest + "class/rate"), "100 Gb/sec");
  EXPECT_EQ(first_line(guest + "class/inner"), "100 Gb/sec");
  EXPECT_EQ(first_line(guest + "class/infiniband/softhca0/softhca_socket"),
            guest_.path() + "/vm1/socket");
  for (const char* name : {"class/.staged", "class/large", "class/outer", "stale"})
    EXPECT_FALSE(fs::exists(fs::symlink_status(guest + name))) << name;
}

TEST_F(GuestTest, ChangedFiles_Follow) {
  const std::string host = host_.path() + "/vm1/sysfs/", guest = guest_.path() + "/vm1/sysfs/";
  std::ofstream(host + "state") << "4: ACTIVE\n";
  std::ofstream(host + "gone") << "x\n";
  start();
  std::ofstream(host + "state") << "1: DOWN\n";
  fs::remove(host + "gone");
  EXPECT_TRUE(run_until([&] { return first_line(guest + "state") == "1: DOWN"; }));
  EXPECT_TRUE(run_until([&] { return !fs::exists(guest + "gone"); }));
}

TEST_F(GuestTest, SocketOfALevel_ServedWhileItExists) {
  start();
  const std::string guest = guest_.path() + "/vm1/gold.socket";
  EXPECT_FALSE(fs::exists(guest));
  UniqueFd level = std::move(*listen_on(host_.path() + "/vm1/gold.socket", SOCK_SEQPACKET, 0600));
  ASSERT_TRUE(run_until([&] { return fs::exists(guest); }));
  std::swap(level, listener_);
  const Pair pair = connect_pair("gold.socket");
  EXPECT_TRUE(pair.daemon);
  fs::remove(host_.path() + "/vm1/gold.socket");
  EXPECT_TRUE(run_until([&] { return !fs::exists(guest); }));
}

}  // namespace
}  // namespace softhca::guest::test
