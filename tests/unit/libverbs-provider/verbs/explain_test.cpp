// SPDX-License-Identifier: Apache-2.0

// With SOFTHCA_DEBUG=1, each verb that fails writes one line to standard error.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/unit/libverbs-provider/device_fixture.hpp"

namespace softhca::provider::test {
namespace {

using abi::Operation;

/// Takes what is written to standard error, until the end of its life.
class StandardError {
 public:
  explicit StandardError(int to) : before_(::dup(STDERR_FILENO)) {
    EXPECT_EQ(::dup2(to, STDERR_FILENO), STDERR_FILENO);
  }
  ~StandardError() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
  }

 private:
  int before_;
};

class Explain : public DeviceTest {
 protected:
  void SetUp() override {
    ::setenv("SOFTHCA_DEBUG", "1", 1);
    DeviceTest::SetUp();
  }
  void TearDown() override {
    DeviceTest::TearDown();
    ::unsetenv("SOFTHCA_DEBUG");
  }

  /// Returns what `call` wrote to standard error.
  template <class Call>
  static std::string written_by(Call&& call) {
    const int file = ::memfd_create("standard error", MFD_CLOEXEC);
    {
      const StandardError taken(file);
      call();
    }
    char text[2048];
    const ssize_t got = ::pread(file, text, sizeof text, 0);
    ::close(file);
    return {text, got > 0 ? static_cast<std::size_t>(got) : 0};
  }
  /// Lets the daemon refuse the next request with a text behind the error.
  void refuse_next(Operation operation, int error, const std::string& why) {
    daemon().spoil_next(
        operation, [=](abi::ReplyHeader& header, std::vector<std::byte>& body, std::vector<int>&) {
          header.error = error;
          const auto* const text = reinterpret_cast<const std::byte*>(why.data());
          body.assign(text, text + why.size());
        });
  }
};

TEST_F(Explain, DaemonRefuses_ItsTextIsPrinted) {
  // Longer than the reply to the request, which is a handle.
  refuse_next(Operation::kAllocPd, ENOMEM, "tenant limit of 3 protection domains reached");
  EXPECT_EQ(written_by([&] { EXPECT_EQ(ibv_alloc_pd(context_), nullptr); }),
            "softhca: ibv_alloc_pd: tenant limit of 3 protection domains reached (ENOMEM)\n");
  EXPECT_EQ(errno, ENOMEM);
  // A reply without body.
  refuse_next(Operation::kDeallocPd, EBUSY, "in use by 1 queue pair");
  EXPECT_EQ(written_by([&] { EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY); }),
            "softhca: ibv_dealloc_pd: in use by 1 queue pair (EBUSY)\n");
}

TEST_F(Explain, EarlierDaemonGivesNoText_ErrnoIsPrinted) {
  daemon().fail_next(Operation::kAllocPd, ENOMEM);
  EXPECT_EQ(written_by([&] { EXPECT_EQ(ibv_alloc_pd(context_), nullptr); }),
            "softhca: ibv_alloc_pd: refused by the daemon (ENOMEM)\n");
}

TEST_F(Explain, TextBeyondTheLongest_Cut) {
  refuse_next(Operation::kAllocPd, ENOMEM, std::string(400, 'x'));
  EXPECT_EQ(written_by([&] { EXPECT_EQ(ibv_alloc_pd(context_), nullptr); }),
            "softhca: ibv_alloc_pd: " + std::string(abi::kMaxRefusalText + 8, 'x') + " (ENOMEM)\n");
}

TEST_F(Explain, VerbThatSucceeds_PrintsNothingAndDropsReasons) {
  ibv_cq* const cq = make_cq();
  ibv_qp* const qp = make_qp(cq);
  EXPECT_EQ(written_by([&] {
              // Memory is reached in place if it cannot be shared, so the verb succeeds.
              refuse_next(Operation::kAllocShared, ENOMEM, "no more shared memory");
              void* const page = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              ibv_mr* const mr = ibv_reg_mr(pd_, page, kPage, IBV_ACCESS_LOCAL_WRITE);
              EXPECT_NE(mr, nullptr);
              if (mr != nullptr) {
                EXPECT_EQ(ibv_dereg_mr(mr), 0);
              }
            }),
            "");
  daemon().fail_next(Operation::kModifyQp, EINVAL);
  ibv_qp_attr attr{};
  EXPECT_EQ(written_by([&] { EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_PORT), EINVAL); }),
            "softhca: ibv_modify_qp: refused by the daemon (EINVAL)\n");
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(Explain, PollsOfALostDevice_ExplainedOnce) {
  ibv_cq* const cq = make_cq();
  daemon().hang_up();
  ibv_port_attr port;
  EXPECT_EQ(ibv_query_port(context_, 1, &port), EIO);  // notices it at once
  ibv_wc wc;
  const std::string text = written_by([&] {
    for (int i = 0; i < 3; ++i) EXPECT_LT(ibv_poll_cq(cq, 1, &wc), 0);
  });
  EXPECT_EQ(text,
            "softhca: ibv_poll_cq: the daemon has ended, or the program has closed the connection "
            "to it (EIO)\n");
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(Explain, NotSet_PrintsNothing) {
  ::setenv("SOFTHCA_DEBUG", "0", 1);
  ibv_context* const context = world_->open();
  ASSERT_NE(context, nullptr);
  EXPECT_EQ(written_by([&] { EXPECT_EQ(ibv_create_cq(context, 0, nullptr, nullptr, 0), nullptr); }),
            "");
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_close_device(context), 0);
}

TEST_F(Explain, PipeWithoutReader_ProgramGoesOn) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ::close(ends[0]);
  {
    const StandardError taken(ends[1]);
    EXPECT_EQ(ibv_create_cq(context_, 0, nullptr, nullptr, 0), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
  ::close(ends[1]);
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
}

}  // namespace
}  // namespace softhca::provider::test
