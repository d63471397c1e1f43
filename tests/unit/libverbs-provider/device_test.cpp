// SPDX-License-Identifier: Apache-2.0

#include <arpa/inet.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>

#include "tests/emulated.hpp"
#include "tests/unit/libverbs-provider/device_fixture.hpp"

namespace softhca::provider::test {
namespace {

class Device : public DeviceTest {
 protected:
  ibv_context* open_and_use();
};

TEST_F(Device, IsOpenedWithWhatTheDaemonSaid) {
  EXPECT_EQ(context_->num_comp_vectors, 2);
  EXPECT_NE(context_->async_fd, -1);
  EXPECT_STREQ(context_->device->name, world_->name().c_str());
  EXPECT_EQ(be64toh(ibv_get_device_guid(context_->device)), 0x1122334455667788u);
}

TEST_F(Device, TellsItsLimits) {
  ibv_device_attr attr{};
  ASSERT_EQ(ibv_query_device(context_, &attr), 0);
  EXPECT_STREQ(attr.fw_ver, "fake 1");
  EXPECT_EQ(attr.max_qp_wr, 1024);
  EXPECT_EQ(attr.max_cqe, 4096);
  EXPECT_EQ(attr.max_srq_sge, 4);
  EXPECT_EQ(attr.max_mcast_grp, 1600);
  EXPECT_EQ(attr.max_total_mcast_qp_attach, 1600);
  EXPECT_EQ(attr.max_mcast_qp_attach, 16);
  EXPECT_EQ(attr.vendor_part_id, 3u);
  EXPECT_EQ(attr.max_qp_rd_atom, 16);
  EXPECT_EQ(attr.phys_port_cnt, 2);
  EXPECT_EQ(attr.max_pkeys, 1);

  ibv_device_attr_ex extended{};
  ASSERT_EQ(ibv_query_device_ex(context_, nullptr, &extended), 0);
  EXPECT_EQ(extended.orig_attr.max_qp_wr, 1024);
  EXPECT_EQ(extended.phys_port_cnt_ex, 2u);
  EXPECT_EQ(extended.tm_caps.max_ops, 0u);
  EXPECT_EQ(extended.cq_mod_caps.max_cq_count, 0xffff);
  EXPECT_EQ(extended.cq_mod_caps.max_cq_period, 0xffff);
  const ibv_query_device_ex_input input{1};
  EXPECT_EQ(ibv_query_device_ex(context_, &input, &extended), EINVAL);
}

TEST_F(Device, TellsItsPort) {
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context_, 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.active_mtu, IBV_MTU_1024);
  EXPECT_EQ(port.gid_tbl_len, 2);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(port.max_msg_sz, 1u << 30);
  EXPECT_EQ(daemon().last<abi::HandleBody>(abi::Operation::kQueryPort).handle, 1u);
  EXPECT_EQ(ibv_query_port(context_, 2, &port), 0);
  EXPECT_EQ(daemon().last<abi::HandleBody>(abi::Operation::kQueryPort).handle, 2u);
}

TEST_F(Device, GidsComeFromItsFiles) {
  if (!kernel_refuses_ioctls()) GTEST_SKIP() << "libibverbs does not get as far as the files";
  ibv_gid gid{};
  ASSERT_EQ(ibv_query_gid(context_, 1, 0, &gid), 0);
  EXPECT_EQ(gid.raw[10], 0xff);
  EXPECT_EQ(gid.raw[12], 10);
}

TEST_F(Device, WhatIsNotProvidedIsNotSupported) {
  const auto refused = [](auto&& make) {
    errno = 0;
    return make() == nullptr && errno == EOPNOTSUPP;
  };
  ibv_alloc_dm_attr dm{};
  EXPECT_TRUE(refused([&] { return ibv_alloc_dm(context_, &dm); }));
  ibv_counters_init_attr counters{};
  EXPECT_TRUE(refused([&] { return ibv_create_counters(context_, &counters); }));
  ibv_cq_init_attr_ex init{};
  init.cqe = 16;
  init.wc_flags = IBV_WC_EX_WITH_FLOW_TAG;
  EXPECT_TRUE(refused([&] { return ibv_create_cq_ex(context_, &init); }));
  ibv_wq_init_attr wq{};
  EXPECT_TRUE(refused([&] { return ibv_create_wq(context_, &wq); }));
  EXPECT_TRUE(refused([&] { return ibv_reg_dmabuf_mr(pd_, 0, 4096, 0, -1, 0); }));
  EXPECT_TRUE(refused([&] { return ibv_import_dm(context_, 1); }));
}

TEST_F(Device, PromisesNoOrderOfTheBytes) {
  ibv_cq* cq = make_cq();
  ibv_qp* qp = make_qp(cq);
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ})
    EXPECT_EQ(ibv_query_qp_data_in_order(qp, opcode, 0), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
}

TEST_F(Device, SecondContextHasItsOwnSession) {
  ibv_context* other = world_->open();
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(daemon().session_count(), 2u);
  EXPECT_EQ(ibv_close_device(other), 0);
}

TEST_F(Device, RefusedHelloIsTheErrorOfOpening) {
  daemon().fail_next(abi::Operation::kHello, EPERM);
  errno = 0;
  EXPECT_EQ(world_->open(), nullptr);
  EXPECT_EQ(errno, EPERM);
}

TEST_F(Device, DaemonSpeaksOtherVersions_OpeningFailsAndSaysWhy) {
  daemon().spoil_next(
      abi::Operation::kHello,
      [](abi::ReplyHeader& reply, std::vector<std::byte>& body, std::vector<int>& fds) {
        reply.error = EPROTO;
        constexpr abi::VersionRange kNewer{abi::kAbiVersion + 1, abi::kAbiVersion + 3};
        body.assign(sizeof kNewer, {});
        std::memcpy(body.data(), &kNewer, sizeof kNewer);
        fds.clear();
      });
  testing::internal::CaptureStderr();
  errno = 0;
  EXPECT_EQ(world_->open(), nullptr);
  EXPECT_EQ(errno, EPROTO);
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string daemons = ", the daemon " + std::to_string(abi::kAbiVersion + 1) + " to " +
                              std::to_string(abi::kAbiVersion + 3) + "; upgrade the provider";
  EXPECT_NE(said.find(daemons), std::string::npos) << said;
}

TEST_F(Device, DaemonAnswersWithAVersionThatWasNotOffered_OpeningFails) {
  daemon().spoil_next(abi::Operation::kHello, [](abi::ReplyHeader&, std::vector<std::byte>& body,
                                                 std::vector<int>&) {
    const std::uint32_t newer = abi::kAbiVersion + 1;
    std::memcpy(body.data() + offsetof(abi::HelloReply, version), &newer, sizeof newer);
  });
  errno = 0;
  EXPECT_EQ(world_->open(), nullptr);
  EXPECT_EQ(errno, EPROTO);
}

TEST_F(Device, TooManyVcbsAreRefused) {
  daemon().set_vcbs(abi::kMaxVcbsPerSession + 1);
  EXPECT_EQ(world_->open(), nullptr);
}

class Resources : public DeviceTest {};

TEST_F(Resources, RegionIsRegisteredAsAsked) {
  if (!kernel_has_userfaultfd()) GTEST_SKIP() << "memory is not shared in place";
  void* pages =
      ::mmap(nullptr, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  auto* memory = static_cast<std::byte*>(pages) + 8;
  const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
  ibv_mr* mr = ibv_reg_mr(pd_, memory, 13000, access);
  ASSERT_NE(mr, nullptr);
  const auto request = daemon().last<abi::RegisterMrRequest>(abi::Operation::kRegisterMr);
  const auto addr = reinterpret_cast<std::uintptr_t>(memory);
  EXPECT_EQ(request.addr, addr);
  EXPECT_EQ(request.length, 13000u);
  EXPECT_EQ(request.iova, addr);
  EXPECT_EQ(request.access, static_cast<unsigned>(access));
  EXPECT_EQ(request.pd, pd_->handle);
  EXPECT_EQ(mr->lkey, mr->handle << 8);
  EXPECT_EQ(mr->rkey, mr->handle << 8 | 1);
  const std::uint32_t handle = mr->handle;

  const std::vector<std::byte> body = daemon().last_body(abi::Operation::kRegisterMr);
  ASSERT_EQ(body.size(), sizeof request + request.extents * sizeof(abi::MrExtent));
  ASSERT_EQ(request.extents, 3u);  // head, whole pages, tail
  abi::MrExtent extents[3];
  std::memcpy(extents, body.data() + sizeof request, sizeof extents);
  EXPECT_EQ(extents[0].addr, addr);
  EXPECT_EQ(extents[1].addr, extents[0].addr + extents[0].length);
  EXPECT_EQ(extents[2].addr, extents[1].addr + extents[1].length);
  EXPECT_EQ(extents[2].addr + extents[2].length, addr + 13000);
  ASSERT_EQ(extents[1].kind, static_cast<std::uint32_t>(abi::ExtentKind::kShared));
  EXPECT_EQ(extents[1].length, 2 * 4096u);
  memory[4096] = std::byte{0x5a};
  EXPECT_EQ(session().shared.at(extents[1].handle).base[extents[1].offset + 8], std::byte{0x5a});

  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(daemon().last<abi::HandleBody>(abi::Operation::kDeregisterMr).handle, handle);
  EXPECT_EQ(::munmap(pages, 4 * 4096), 0);
}

TEST_F(Resources, RegionMayBeSeenAtAnotherAddress) {
  static std::byte memory[4096];
  ibv_mr* zero = ibv_reg_mr_iova(pd_, memory, 100, 0, IBV_ACCESS_ZERO_BASED);
  ASSERT_NE(zero, nullptr);
  EXPECT_EQ(daemon().last<abi::RegisterMrRequest>(abi::Operation::kRegisterMr).iova, 0u);
  ibv_mr* offset = ibv_reg_mr_iova(pd_, memory, 100, 0xabc000, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(offset, nullptr);
  EXPECT_EQ(daemon().last<abi::RegisterMrRequest>(abi::Operation::kRegisterMr).iova, 0xabc000u);
  EXPECT_EQ(ibv_dereg_mr(zero), 0);
  EXPECT_EQ(ibv_dereg_mr(offset), 0);
}

TEST_F(Resources, NullRegionIsForLocalUseAlone) {
  ibv_mr* mr = ibv_alloc_null_mr(pd_);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(daemon().last<abi::HandleBody>(abi::Operation::kAllocNullMr).handle, pd_->handle);
  EXPECT_EQ(mr->context, context_);
  EXPECT_EQ(mr->pd, pd_);
  EXPECT_EQ(mr->addr, nullptr);
  EXPECT_EQ(mr->length, SIZE_MAX);
  EXPECT_EQ(mr->lkey, 0x4700u);
  EXPECT_EQ(mr->rkey, 0u);
  // The library itself refuses to change one: it knows what it is.
  EXPECT_NE(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0), 0);
  EXPECT_EQ(daemon().count(abi::Operation::kReregisterMr), 0u);
  const std::uint32_t handle = mr->handle;
  EXPECT_EQ(ibv_dereg_mr(mr), 0);
  EXPECT_EQ(daemon().last<abi::HandleBody>(abi::Operation::kDeregisterMr).handle, handle);
  daemon().fail_next(abi::Operation::kAllocNullMr, ENOMEM);
  errno = 0;
  EXPECT_EQ(ibv_alloc_null_mr(pd_), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

TEST_F(Resources, BadRegionsAreRefused) {
  static std::byte memory[64];
  errno = 0;
  EXPECT_EQ(ibv_reg_mr(pd_, memory, 0, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(ibv_reg_mr(pd_, memory, ~std::size_t{0}, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(daemon().count(abi::Operation::kRegisterMr), 0u);
  daemon().fail_next(abi::Operation::kRegisterMr, ENOMEM);
  errno = 0;
  EXPECT_EQ(ibv_reg_mr(pd_, memory, 64, 0), nullptr);
  EXPECT_EQ(errno, ENOMEM);
}

TEST_F(Resources, ErrorsOfTheDaemonAreReported) {
  daemon().fail_next(abi::Operation::kAllocPd, ENOSPC);
  errno = 0;
  EXPECT_EQ(ibv_alloc_pd(context_), nullptr);
  EXPECT_EQ(errno, ENOSPC);
  daemon().fail_next(abi::Operation::kDeallocPd, EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(pd_), EBUSY);
}

TEST_F(Resources, AddressHandleCarriesItsVector) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.sl = 3;
  attr.grh.sgid_index = 2;
  attr.grh.hop_limit = 9;
  attr.grh.traffic_class = 0x20;
  attr.grh.flow_label = 0x12345;
  attr.grh.dgid.raw[15] = 0x77;
  ibv_ah* ah = ibv_create_ah(pd_, &attr);
  ASSERT_NE(ah, nullptr);
  const auto request = daemon().last<abi::CreateAhRequest>(abi::Operation::kCreateAh);
  EXPECT_EQ(request.pd, pd_->handle);
  EXPECT_EQ(request.av.dgid[15], 0x77);
  EXPECT_EQ(request.av.sgid_index, 2);
  EXPECT_EQ(request.av.hop_limit, 9);
  EXPECT_EQ(request.av.traffic_class, 0x20);
  EXPECT_EQ(request.av.flow_label, 0x12345u);
  EXPECT_EQ(request.av.sl, 3);
  EXPECT_EQ(request.av.is_global, 1);
  EXPECT_EQ(ibv_destroy_ah(ah), 0);
}

/// Opens a context and makes requests, of which some are answered with descriptors.
ibv_context* Device::open_and_use() {
  ibv_context* const context = world_->open();
  ibv_comp_channel* const channel = ibv_create_comp_channel(context);
  EXPECT_NE(channel, nullptr);
  ibv_cq* const cq = ibv_create_cq(context, 16, nullptr, channel, 0);
  EXPECT_NE(cq, nullptr);
  ibv_port_attr port;
  EXPECT_EQ(ibv_query_port(context, 1, &port), 0);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
  return context;
}

TEST_F(Device, RepliesThatComeAgain_AreSkippedWithTheirDescriptors) {
  const auto descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = descriptors();
  daemon().repeat_replies();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ibv_close_device(open_and_use()), 0);
  // The fake daemon, a thread of this process, closes its ends.
  for (int i = 0; i < 5000 && descriptors() != before; ++i) ::usleep(1000);
  EXPECT_EQ(descriptors(), before);
}

}  // namespace
}  // namespace softhca::provider::test
