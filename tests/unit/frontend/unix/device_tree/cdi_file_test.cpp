// SPDX-License-Identifier: Apache-2.0

// The file by which container engines give a container the device of a tenant.
#include "daemon/frontend/unix/device_tree/cdi_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/folder.hpp"

namespace softhca::control {
namespace {

class CdiFile : public ::testing::Test {
 protected:
  CdiFile() {
    for (const char* name : {"libibverbs/libsofthca-rdmav34.so", "libibverbs/libsofthca-rdmav59.so",
                             "libibverbs/libmlx5-rdmav34.so", "softhca/libsofthca-preload.so"}) {
      std::filesystem::create_directories(
          std::filesystem::path(libraries + "/" + name).parent_path());
      std::ofstream(libraries + "/" + name) << "x";
    }
  }
  Outcome write(const std::vector<std::string>& tenants) {
    return write_cdi_file({folder.path(), libraries, tenants});
  }
  bool exists() const { return std::filesystem::exists(file); }
  nlohmann::json read() const { return nlohmann::json::parse(std::ifstream(file)); }

  Folder folder;
  const std::string libraries = folder.path() + "/lib";
  const std::string file = folder.path() + "/cdi.json";
};

TEST_F(CdiFile, HasADeviceForEachTenant) {
  ASSERT_TRUE(write({"a", "pod-small-0"}));
  const nlohmann::json spec = read();
  EXPECT_EQ(spec["kind"], "softhca.io/tenant");
  ASSERT_EQ(spec["devices"].size(), 2u);
  EXPECT_EQ(spec["devices"][1]["name"], "pod-small-0");
  const nlohmann::json& edits = spec["devices"][0]["containerEdits"];
  EXPECT_EQ(edits["env"].size(), 7u);
  EXPECT_EQ(edits["env"][2], "SOFTHCA_SYSFS=" + folder.path() + "/a/sysfs");
  EXPECT_EQ(edits["mounts"][0]["hostPath"], folder.path() + "/a");
  EXPECT_EQ(edits["mounts"][0]["containerPath"], folder.path() + "/a");
  const nlohmann::json& mounts = spec["containerEdits"]["mounts"];
  ASSERT_EQ(mounts.size(), 3u) << "providers of softhca for both interfaces, preload library";
  EXPECT_EQ(mounts[0]["hostPath"], libraries + "/libibverbs/libsofthca-rdmav34.so");
  EXPECT_EQ(mounts[0]["containerPath"], "/opt/softhca/libsofthca-rdmav34.so");
  EXPECT_EQ(mounts[2]["containerPath"], "/opt/softhca/libsofthca-preload.so");
}

TEST_F(CdiFile, IsReplacedAsAWhole) {
  ASSERT_TRUE(write({"a", "b"}));
  std::ifstream reader(file);
  ASSERT_TRUE(write({"b"}));
  EXPECT_EQ(nlohmann::json::parse(reader)["devices"].size(), 2u) << "an engine reads the former";
  EXPECT_EQ(read()["devices"].size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(file + ".new"));
}

TEST_F(CdiFile, NamesThatTheInterfaceForbids_AreLeftOut) {
  ASSERT_TRUE(write({"_a", "a-", "a_b"}));
  ASSERT_EQ(read()["devices"].size(), 1u);
  EXPECT_EQ(read()["devices"][0]["name"], "a_b");
}

TEST_F(CdiFile, WithoutATenant_IsRemoved) {
  ASSERT_TRUE(write({"a"}));
  ASSERT_TRUE(write({}));
  EXPECT_FALSE(exists());
}

TEST_F(CdiFile, WithoutAProvider_IsRemovedAndTheFolderIsNamed) {
  ASSERT_TRUE(write({"a"}));
  std::filesystem::remove(libraries + "/softhca/libsofthca-preload.so");
  const auto written = write({"a"});
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().message.find(libraries + "/libibverbs"), std::string::npos);
  EXPECT_FALSE(exists());
}

TEST_F(CdiFile, ThatCannotBeWritten_IsNamed) {
  const auto written = write_cdi_file({folder.path() + "/none", libraries, {"a"}});
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().message.find(folder.path() + "/none/cdi.json"), std::string::npos);
}

}  // namespace
}  // namespace softhca::control
