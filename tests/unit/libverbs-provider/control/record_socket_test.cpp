// SPDX-License-Identifier: Apache-2.0

// Descriptors that come with a record, in a process that may have no place for them.
#include "libverbs-provider/control/record_socket.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

namespace softhca::provider {
namespace {

class Records : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_), 0);
  }
  void TearDown() override {
    for (const int end : ends_) ::close(end);
  }

  int receive(unsigned wanted) {
    std::byte byte{};
    iovec part{&byte, 1};
    ReceivedFds fds;
    EXPECT_EQ(receive_record(ends_[1], {&part, 1}, fds).bytes, 1u);
    return fds.check(wanted);
  }

  int ends_[2] = {-1, -1};
};

/// As many as the process may have, while it lasts.
class NoPlaces {
 public:
  NoPlaces() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{64, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
    for (int fd = ::open("/dev/null", O_RDONLY); fd >= 0; fd = ::open("/dev/null", O_RDONLY))
      taken_.push_back(fd);
  }
  ~NoPlaces() {
    for (const int fd : taken_) ::close(fd);
    ::setrlimit(RLIMIT_NOFILE, &before_);
  }

 private:
  rlimit before_{};
  std::vector<int> taken_;
};

TEST_F(Records, DescriptorThatCame_IsTaken) {
  ASSERT_EQ(send_descriptor(ends_[0], ends_[0]), 0);
  EXPECT_EQ(receive(1), 0);
}

TEST_F(Records, DescriptorWithoutAPlace_Emfile) {
  ASSERT_EQ(send_descriptor(ends_[0], ends_[0]), 0);
  const NoPlaces none;
  EXPECT_EQ(receive(1), EMFILE);
}

TEST_F(Records, AnotherNumberThanExpected_Eproto) {
  ASSERT_EQ(send_descriptor(ends_[0], ends_[0]), 0);
  EXPECT_EQ(receive(2), EPROTO);
  ASSERT_EQ(send_descriptor(ends_[0], ends_[0]), 0);
  EXPECT_EQ(receive(0), EPROTO);
}

}  // namespace
}  // namespace softhca::provider
