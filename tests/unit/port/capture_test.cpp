#include "daemon/port/capture.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>

#include "daemon/port/memory_port.hpp"
#include "tests/unit/port/frames.hpp"

namespace softhca::port {
namespace {

std::string output_of(const std::string& command) {
  std::string all;
  FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  std::array<char, 4096> part;
  while (std::size_t n = std::fread(part.data(), 1, part.size(), pipe)) all.append(part.data(), n);
  pclose(pipe);
  return all;
}

class Capture : public testing::Test {
 protected:
  ~Capture() override { std::filesystem::remove(path_); }

  std::unique_ptr<CapturePort> capture(std::unique_ptr<Port> inner, std::uint64_t most = 1000) {
    auto file = CaptureFile::create(path_, most);
    EXPECT_TRUE(file);
    return std::make_unique<CapturePort>(std::move(inner), std::move(*file), [this] {
      ++clock_readings_;
      return now_;
    });
  }
  bool have_tshark() { return !output_of("tshark --version").empty(); }
  std::string tshark(const std::string& fields) {
    return output_of("tshark -r " + path_ + " -T fields " + fields);
  }

  WallTime now_{1'500'000'000'123'456'789};
  int clock_readings_ = 0;
  std::string path_ = testing::TempDir() + "capture-" + std::to_string(getpid()) + ".pcapng";
};

TEST_F(Capture, TsharkReadsBothDirectionsWithTheTimesOfTheClock) {
  if (!have_tshark()) GTEST_SKIP() << "tshark is not installed";
  auto ends = MemoryPort::make_pair();
  auto port = capture(std::move(ends.first));
  ASSERT_TRUE(send_bytes(*port, udp_frame(1, 64)));
  port->flush();
  EXPECT_EQ(receive_all(*ends.second).size(), 1u) << "a capture does not get in the way";
  now_ += WallTime(1);
  ASSERT_TRUE(send_bytes(*ends.second, udp_frame(2, 63)));
  ends.second->flush();
  EXPECT_EQ(receive_all(*port).size(), 1u);
  port->flush();
  EXPECT_EQ(tshark("-e frame.time_epoch -e frame.packet_flags_direction -e frame.len "
                   "-e udp.dstport"),
            "1500000000.123456789\t0x00000002\t106\t4791\n"
            "1500000000.123456790\t0x00000001\t105\t4791\n");
}

TEST_F(Capture, StopsAtItsBoundWhileTrafficGoesOn) {
  if (!have_tshark()) GTEST_SKIP() << "tshark is not installed";
  auto ends = MemoryPort::make_pair();
  auto port = capture(std::move(ends.first), 3);
  for (std::uint32_t i = 0; i < 10; ++i) ASSERT_TRUE(send_bytes(*port, udp_frame(i)));
  port->flush();
  EXPECT_EQ(receive_all(*ends.second).size(), 10u);
  EXPECT_EQ(tshark("-e frame.number -e udp.dstport"), "1\t4791\n2\t4791\n3\t4791\n");
}

TEST_F(Capture, ReadsTheClockOncePerBurstReceivedAndNotForNone) {
  auto ends = MemoryPort::make_pair();
  auto port = capture(std::move(ends.first));
  EXPECT_TRUE(receive_all(*port).empty());
  EXPECT_EQ(clock_readings_, 0);
  for (std::uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(send_bytes(*ends.second, udp_frame(i)));
  ends.second->flush();
  EXPECT_EQ(receive_all(*port).size(), 3u);
  EXPECT_EQ(clock_readings_, 1);
}

TEST_F(Capture, IsReadableBeforeTheFirstFrameAndAfterEachFlush) {
  auto ends = MemoryPort::make_pair();
  auto port = capture(std::move(ends.first));
  EXPECT_EQ(std::filesystem::file_size(path_), 28u + 32u);
  ASSERT_TRUE(send_bytes(*port, udp_frame(1, 64)));
  port->flush();
  EXPECT_EQ(std::filesystem::file_size(path_), 28u + 32u + 44u + 108u);
}

TEST_F(Capture, IsForItsOwnerAlone) {
  const mode_t before = ::umask(0);
  EXPECT_TRUE(CaptureFile::create(path_, 1));
  ::umask(before);
  struct stat found {};
  ASSERT_EQ(::stat(path_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
}

TEST_F(Capture, ReplacesWhatIsThereAndKeepsItsMode) {
  std::FILE* earlier = std::fopen(path_.c_str(), "w");
  ASSERT_NE(earlier, nullptr);
  std::fputs(std::string(1000, 'x').c_str(), earlier);
  std::fclose(earlier);
  ASSERT_EQ(::chmod(path_.c_str(), 0640), 0);
  EXPECT_TRUE(CaptureFile::create(path_, 1));
  struct stat found {};
  ASSERT_EQ(::stat(path_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0640u);
  EXPECT_EQ(found.st_size, 28 + 32);
}

TEST_F(Capture, FollowsNoLink) {
  const std::string target = path_ + ".target";
  std::filesystem::create_symlink(target, path_);
  const auto file = CaptureFile::create(path_, 1);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ELOOP);
  EXPECT_FALSE(std::filesystem::exists(target));
}

TEST_F(Capture, OfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  std::FILE* others = std::fopen(path_.c_str(), "w");
  ASSERT_NE(others, nullptr);
  std::fclose(others);
  ASSERT_EQ(::chown(path_.c_str(), 65534, 65534), 0);
  const auto file = CaptureFile::create(path_, 1);
  ASSERT_FALSE(file);
  // Where the folder is sticky the kernel may refuse it first (fs.protected_regular).
  EXPECT_TRUE(file.error().code == EPERM || file.error().code == EACCES) << file.error().message;
}

TEST(CaptureFile, SaysWhyItCannotBeCreated) {
  auto file = CaptureFile::create("/nonexistent/x.pcapng", 1);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ENOENT);
  EXPECT_THAT(file.error().message, testing::HasSubstr("/nonexistent/x.pcapng"));
}

}  // namespace
}  // namespace softhca::port
