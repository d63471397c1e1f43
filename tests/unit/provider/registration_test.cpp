// Memory that the process cannot give, or cannot have mapped.
#include <fcntl.h>

#include "tests/unit/provider/device_fixture.hpp"

namespace softhca::provider::test {
namespace {

using abi::Operation;

/// A file that cannot be mapped comes in the place of the segment's memory.
FakeDaemon::Spoil unmappable() {
  return [](abi::ReplyHeader&, std::vector<std::byte>&, std::vector<int>& fds) {
    fds = {::open("/dev/null", O_RDWR | O_CLOEXEC)};  // ends with the process
  };
}

using UnmappableSegment = DeviceTest;

TEST_F(UnmappableSegment, QueueMade_IsDestroyedAgain) {
  daemon().spoil_next(Operation::kCreateCq, unmappable());
  EXPECT_EQ(ibv_create_cq(context_, 16, nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(daemon().count(Operation::kDestroyCq), 1u);
  ibv_cq* const cq = make_cq();
  ASSERT_NE(cq, nullptr);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(UnmappableSegment, QueueResized_StaysAsItWas) {
  ibv_cq* const cq = make_cq(4);
  daemon().spoil_next(Operation::kResizeCq,
                      [](abi::ReplyHeader& header, std::vector<std::byte>& body, auto& fds) {
                        const abi::CreateCqReply segment_first{abi::kNoHandle, 0, {9, 0, 0}, 1, 0};
                        std::memcpy(body.data(), &segment_first, sizeof segment_first);
                        unmappable()(header, body, fds);
                      });
  const int error = ibv_resize_cq(cq, 16);
  EXPECT_NE(error, 0);
  EXPECT_NE(error, EPROTO);
  EXPECT_EQ(daemon().last<abi::HandleBody>(Operation::kDestroyCq).handle, abi::kNoHandle);
  EXPECT_EQ(ibv_resize_cq(cq, 16), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

}  // namespace
}  // namespace softhca::provider::test
