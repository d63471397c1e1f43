// SPDX-License-Identifier: Apache-2.0

// Where the region lies in the memory of a machine, as sysfs says it.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <filesystem>
#include <fstream>

#include "guest/agent/region.hpp"
#include "tests/folder.hpp"

namespace softhca::guest {
namespace {

namespace fs = std::filesystem;

/// The description of /dev/null as if it were a device of persistent memory.
class RegionTest : public ::testing::Test {
 protected:
  RegionTest() {
    struct stat info;
    EXPECT_EQ(::stat("/dev/null", &info), 0);
    fs::create_directories(device());
    fs::create_directories(sysfs_.path() + "/dev/char");
    fs::create_directories(sysfs_.path() + "/bus/nd/devices/region0");
    fs::create_symlink(device(), sysfs_.path() + "/dev/char/" +
                                     std::to_string(major(info.st_rdev)) + ":" +
                                     std::to_string(minor(info.st_rdev)));
    write(sysfs_.path() + "/bus/nd/devices/region0/resource", "0x140000000");
    write(device() + "/resource", "0x140600000");
    write(device() + "/size", "260046848");
    write(device() + "/align", "4096");
  }
  std::string device() const { return sysfs_.path() + "/devices/ndbus0/region0/dax0.1/dax0.0"; }
  static void write(const std::string& path, const std::string& text) {
    std::ofstream(path) << text << "\n";
  }

  control::Folder sysfs_;
};

TEST_F(RegionTest, Device_BeginsWhereTheKernelPutIt) {
  const auto region = Region::open("/dev/null", sysfs_.path());
  ASSERT_TRUE(region) << region.error().message;
  EXPECT_EQ(region->begin(), 6U << 20);
  EXPECT_EQ(region->bytes(), 260046848U);
}

TEST_F(RegionTest, OtherAlignmentOrNoDescription_Refused) {
  write(device() + "/align", "2097152");
  EXPECT_FALSE(Region::open("/dev/null", sysfs_.path()));
  fs::remove(device() + "/align");
  EXPECT_TRUE(Region::open("/dev/null", sysfs_.path()));
  fs::remove(device() + "/resource");
  EXPECT_FALSE(Region::open("/dev/null", sysfs_.path()));
}

TEST_F(RegionTest, PlaceOutsideTheDevice_Refused) {
  auto region = Region::open("/dev/null", sysfs_.path());
  ASSERT_TRUE(region);
  EXPECT_FALSE(region->map({4096, UINT64_MAX - 4095}));
  EXPECT_FALSE(region->map({UINT64_MAX - 4095, 8192}));
  EXPECT_FALSE(region->map({100, 4096}));
}

}  // namespace
}  // namespace softhca::guest
