// SPDX-License-Identifier: Apache-2.0

// Changes of the files of a configuration.
#include "daemon/operate/reload/config_watch.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/folder.hpp"

namespace softhca::control {
namespace {

namespace fs = std::filesystem;

class ConfigWatchTest : public ::testing::Test {
 protected:
  static void write(const std::string& name, const std::string& text) {
    std::ofstream(name) << text;
  }
  bool changed() { return watch.changed({file}); }

  Folder folder;
  const std::string file = [&] {
    const std::string name = folder.path() + "/softhca.toml";
    write(name, "a");
    return name;
  }();
  ConfigWatch watch{{file}};
};

TEST_F(ConfigWatchTest, UnchangedFile_IsNotReported) {
  EXPECT_FALSE(changed());
  EXPECT_FALSE(changed());
}

TEST_F(ConfigWatchTest, ChangedFile_IsReportedOnceItRests) {
  write(file, "ab");
  EXPECT_FALSE(changed()) << "it may still be written";
  write(file, "abc");
  EXPECT_FALSE(changed());
  EXPECT_TRUE(changed());
  EXPECT_FALSE(changed());
}

TEST_F(ConfigWatchTest, ChangeBeforeTheFirstCall_IsReported) {
  write(file, "abcd");
  EXPECT_FALSE(changed());
  EXPECT_TRUE(changed());
}

TEST_F(ConfigWatchTest, FolderBehindALinkIsReplaced_IsReported) {
  // As the kubelet updates a ConfigMap.
  const std::string root = folder.path();
  const auto publish = [&](const std::string& name) {
    fs::create_directory(root + "/" + name);
    write(root + "/" + name + "/c.toml", "same");
    fs::create_symlink(name, root + "/..data_tmp");
    fs::rename(root + "/..data_tmp", root + "/..data");
  };
  publish("..1");
  fs::create_symlink("..data/c.toml", root + "/c.toml");
  ConfigWatch mounted({root + "/c.toml"});
  publish("..2");
  EXPECT_FALSE(mounted.changed({root + "/c.toml"}));
  EXPECT_TRUE(mounted.changed({root + "/c.toml"}));
}

TEST_F(ConfigWatchTest, FileThatIsNewInTheList_IsReportedWhenItChanges) {
  const std::string keys = folder.path() + "/keys";
  write(keys, "1");
  EXPECT_FALSE(watch.changed({file, keys}));
  EXPECT_FALSE(watch.changed({file, keys}));
  write(keys, "12");
  EXPECT_FALSE(watch.changed({file, keys}));
  EXPECT_TRUE(watch.changed({file, keys}));
}

TEST_F(ConfigWatchTest, RemovedFile_IsReportedOnce) {
  fs::remove(file);
  EXPECT_FALSE(changed());
  EXPECT_TRUE(changed());
  EXPECT_FALSE(changed());
}

}  // namespace
}  // namespace softhca::control
