// SPDX-License-Identifier: Apache-2.0

// Resizing of shared receive queues, as the process sees it.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>
#include <map>

#include "tests/unit/device/session/client.hpp"

namespace softhca::control {
namespace {

class SrqResizeTest : public ::testing::Test {
 protected:
  SrqResizeTest() {
    EXPECT_EQ(client.greet(), 0);
    pd = client.make(Operation::kAllocPd);
  }
  ~SrqResizeTest() override {
    client.end();
    for (const auto& [number, memory] : segments) ::munmap(memory.data(), memory.size());
    const auto& accounts = daemon.adapter.tenants[0]->control.accounts;
    configuration::for_each_kind([&](configuration::Kind kind) {
      EXPECT_EQ(accounts.in_use(kind), 0u) << configuration::name_of(kind);
    });
  }

  /// Maps what a reply brings, as it must be before the next request.
  void learn(const abi::RingLocation& ring, std::uint32_t new_segment) {
    if (new_segment == 0) return;
    ASSERT_EQ(client.descriptors(), 1u);
    struct stat about {};
    ASSERT_EQ(::fstat(client.descriptor(0), &about), 0);
    const auto bytes = static_cast<std::size_t>(about.st_size);
    void* base =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, client.descriptor(0), 0);
    ASSERT_NE(base, MAP_FAILED);
    segments[ring.segment] = {static_cast<std::byte*>(base), bytes};
  }
  void create(std::uint32_t max_wr, std::uint32_t limit = 0) {
    ASSERT_EQ(
        client.ask(Operation::kCreateSrq, abi::CreateSrqRequest{1, pd, max_wr, 1, limit}, &srq), 0);
    learn(srq.ring, srq.new_segment);
  }
  /// 0 or an errno value; without a limit, that stays.
  int resize(std::uint32_t max_wr, std::optional<std::uint32_t> limit = {}) {
    const abi::ResizeSrqRequest request{srq.handle, max_wr, limit.value_or(0), limit ? 1u : 0u};
    abi::CreateSrqReply reply{};
    int error = client.ask(Operation::kResizeSrq, request, &reply);
    if (error == 0 && reply.handle == abi::kNoHandle) {
      EXPECT_EQ(reply.ring.bytes, 0u);
      learn(reply.ring, reply.new_segment);
      error = client.ask(Operation::kResizeSrq, request, &reply);
    }
    if (error != 0) return error;
    EXPECT_EQ(reply.handle, srq.handle);
    EXPECT_EQ(reply.number, srq.number);
    EXPECT_EQ(reply.max_wr, max_wr);
    EXPECT_GE(reply.entries, max_wr);
    learn(reply.ring, reply.new_segment);
    srq = reply;
    return 0;
  }
  std::byte* ring() { return segments.at(srq.ring.segment).data() + srq.ring.offset; }
  std::atomic<std::uint32_t>& producer() {
    return reinterpret_cast<abi::ReceiveRingHeader*>(ring())->producer;
  }
  std::byte* slot(std::uint32_t counter) {
    return ring() + sizeof(abi::ReceiveRingHeader) +
           std::size_t{counter & (srq.entries - 1)} * abi::receive_stride(1);
  }
  void post(std::uint32_t index) {
    const std::uint32_t next = producer();
    const abi::ReceiveElement element{index, 0, 0};
    std::memcpy(slot(next), &element, sizeof element);
    producer() = next + 1;
  }
  std::uint32_t index_at(std::uint32_t counter) {
    abi::ReceiveElement element;
    std::memcpy(&element, slot(counter), sizeof element);
    return element.index;
  }
  abi::QuerySrqReply query() {
    abi::QuerySrqReply reply{};
    EXPECT_EQ(client.ask(Operation::kQuerySrq, abi::HandleBody{srq.handle, 0}, &reply), 0);
    return reply;
  }

  Daemon daemon;
  Client client{daemon};
  std::uint32_t pd = 0;
  abi::CreateSrqReply srq{};
  std::map<std::uint32_t, std::span<std::byte>> segments;
};

TEST_F(SrqResizeTest, KeepsWhatIsPosted) {
  create(10);
  for (std::uint32_t i = 0; i < 10; ++i) post(50 + i);
  for (const std::uint32_t max_wr : {1000u, 10u, 12u, 4096u, 16u}) {
    ASSERT_EQ(resize(max_wr), 0) << max_wr;
    EXPECT_EQ(producer(), 10u);
    for (std::uint32_t i = 0; i < 10; ++i) EXPECT_EQ(index_at(i), 50 + i) << max_wr;
    EXPECT_EQ(query().max_wr, max_wr);
  }
}

TEST_F(SrqResizeTest, StaysInItsRingWhereThatHasTheSize) {
  create(9);
  const std::uint64_t before = srq.ring.offset;
  ASSERT_EQ(resize(16), 0);
  EXPECT_EQ(srq.ring.offset, before);
  EXPECT_EQ(srq.new_segment, 0u);
  ASSERT_EQ(resize(17), 0);
  EXPECT_NE(srq.ring.offset, before);
}

TEST_F(SrqResizeTest, RefusesSizesThatCannotBe) {
  create(10);
  for (std::uint32_t i = 0; i < 5; ++i) post(i);
  EXPECT_EQ(resize(4), EINVAL) << "more is posted";
  EXPECT_EQ(resize(0), EINVAL);
  EXPECT_EQ(resize(configuration::DeviceConfig::kMaxSrqWr + 1), EINVAL);
  EXPECT_EQ(resize(~0u), EINVAL);
  EXPECT_EQ(resize(1u << 31), EINVAL);
  const abi::ResizeSrqRequest other{srq.handle + 1, 20, 0, 0};
  EXPECT_EQ(client.ask(Operation::kResizeSrq, other), EINVAL);
  EXPECT_EQ(client.ask(Operation::kResizeSrq, abi::HandleBody{srq.handle, 20}), EINVAL);
  EXPECT_EQ(query().max_wr, 10u);
  EXPECT_EQ(resize(5), 0);
}

TEST_F(SrqResizeTest, LimitAndSizeGoTogether) {
  create(10, 6);
  for (std::uint32_t i = 0; i < 3; ++i) post(i);
  EXPECT_EQ(resize(5), EINVAL) << "the limit that is armed is above it";
  EXPECT_EQ(resize(20, 21), EINVAL);
  EXPECT_EQ(query().max_wr, 10u);
  EXPECT_EQ(query().limit, 6u) << "nothing of a request that fails is done";
  ASSERT_EQ(resize(5, 2), 0) << "its own counts";
  EXPECT_EQ(query().max_wr, 5u);
  EXPECT_EQ(query().limit, 2u);
  ASSERT_EQ(resize(40), 0);
  EXPECT_EQ(query().limit, 2u);
}

/// The queue is the process's own loss; a counter beyond all sense moves nothing.
TEST_F(SrqResizeTest, RefusesAHostileCounter) {
  create(10);
  producer() = 17;
  EXPECT_EQ(resize(1000), EINVAL);
  EXPECT_EQ(resize(4), EINVAL);
  producer() = 0;
  EXPECT_EQ(resize(1000), 0);
}

TEST_F(SrqResizeTest, WorksForQueuesOfXrc) {
  const abi::OpenXrcDomainRequest own{};
  abi::HandleBody domain{};
  ASSERT_EQ(client.ask(Operation::kOpenXrcDomain, own, &domain), 0);
  abi::CreateCqReply cq{};
  ASSERT_EQ(client.ask(Operation::kCreateCq, abi::CreateCqRequest{1, 10, abi::kNoHandle}, &cq), 0);
  learn(cq.ring, cq.new_segment);
  const abi::CreateXrcSrqRequest request{{1, pd, 4, 1, 0}, domain.handle, cq.handle};
  ASSERT_EQ(client.ask(Operation::kCreateSrq, request, &srq), 0);
  if (srq.handle == abi::kNoHandle) {
    learn(srq.ring, srq.new_segment);
    ASSERT_EQ(client.ask(Operation::kCreateSrq, request, &srq), 0);
  }
  learn(srq.ring, srq.new_segment);
  for (std::uint32_t i = 0; i < 4; ++i) post(70 + i);
  ASSERT_EQ(resize(100), 0);
  EXPECT_EQ(producer(), 4u);
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(index_at(i), 70 + i);
}

}  // namespace
}  // namespace softhca::control
