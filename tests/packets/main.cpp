// SPDX-License-Identifier: Apache-2.0

// One test for each script of the folder that is named: packets.NAME.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/packets/script.hpp"

namespace {

class PacketScript : public testing::Test {
 public:
  explicit PacketScript(std::string path) : path_(std::move(path)) {}
  void TestBody() override { softhca::packets::Script::run(path_); }

 private:
  std::string path_;
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) return 2;
  std::vector<std::filesystem::path> scripts;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1]))
    if (entry.path().extension() == ".packets") scripts.push_back(entry.path());
  std::sort(scripts.begin(), scripts.end());
  if (scripts.empty()) return 2;
  for (const auto& path : scripts)
    testing::RegisterTest("packets", path.stem().c_str(), nullptr, nullptr, path.c_str(), 1,
                          [path]() -> testing::Test* { return new PacketScript(path); });
  return RUN_ALL_TESTS();
}
