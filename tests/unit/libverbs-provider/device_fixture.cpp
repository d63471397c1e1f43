// SPDX-License-Identifier: Apache-2.0

#include "tests/unit/libverbs-provider/device_fixture.hpp"

#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace softhca::provider::test {
namespace {

namespace fs = std::filesystem;

void write_file(const fs::path& name, const std::string& text) {
  fs::create_directories(name.parent_path());
  std::ofstream(name) << text << '\n';
}

/// Where the kernel knows RDMA, the library asks it and not the tree.
bool kernel_knows_rdma() {
  const int fd = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

}  // namespace

World* World::instance(std::string& reason) {
  static const bool knows_rdma = kernel_knows_rdma();
  if (knows_rdma)
    reason = "this kernel has ib_core";
  else if (::geteuid() != 0)
    reason = "needs root to make /dev/infiniband";
  if (!reason.empty()) return nullptr;
  static World world;
  return &world;
}

World::World() {
  char folder[] = "/tmp/softhca-provider-test-XXXXXX";
  root_ = ::mkdtemp(folder);
  name_ = "softhcat" + std::to_string(::getpid());
  const fs::path root(root_);
  write_file(root / "class/infiniband_verbs/abi_version", "6");
  const fs::path verbs = root / "class/infiniband_verbs" / name_;
  write_file(verbs / "ibdev", name_);
  write_file(verbs / "dev", "1:3");
  write_file(verbs / "abi_version", "1");
  const fs::path device = root / "class/infiniband" / name_;
  write_file(device / "node_type", "1: CA");
  write_file(device / "node_guid", "1122:3344:5566:7788");
  write_file(device / "sys_image_guid", "1122:3344:5566:7788");
  write_file(device / "fw_ver", "1");
  write_file(device / "softhca_socket", root_ + "/socket");
  write_file(device / "ports/1/gids/0", "0000:0000:0000:0000:0000:ffff:0a00:0001");
  write_file(device / "ports/1/gid_attrs/types/0", "RoCE v2");
  write_file(device / "ports/1/pkeys/0", "0xffff");
  fs::create_directories("/dev/infiniband");
  fs::create_symlink("/dev/null", "/dev/infiniband/" + name_);
  ::setenv("SYSFS_PATH", root_.c_str(), 1);
  ::setenv("IBV_DRIVERS", PROVIDER_DRIVER, 1);
  daemon_ = std::make_unique<FakeDaemon>(root_ + "/socket");
}

World::~World() {
  std::error_code ignored;
  daemon_.reset();
  fs::remove_all(root_, ignored);
  fs::remove("/dev/infiniband/" + name_, ignored);
  fs::remove("/dev/infiniband", ignored);  // only if it is empty
}

ibv_context* World::open() {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  ibv_context* context = nullptr;
  for (int i = 0; i < count; ++i)
    if (name_ == ibv_get_device_name(list[i])) context = ibv_open_device(list[i]);
  ibv_free_device_list(list);
  return context;
}

void DeviceTest::SetUp() {
  std::string reason;
  world_ = World::instance(reason);
  if (world_ == nullptr) GTEST_SKIP() << reason;
  daemon().reset();
  prepare_daemon();
  context_ = world_->open();
  ASSERT_NE(context_, nullptr) << std::strerror(errno);
  pd_ = ibv_alloc_pd(context_);
  ASSERT_NE(pd_, nullptr) << std::strerror(errno);
}

void DeviceTest::TearDown() {
  if (pd_ != nullptr) {
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
  }
  if (context_ != nullptr) {
    EXPECT_EQ(ibv_close_device(context_), 0);
  }
}

ibv_cq* DeviceTest::make_cq(int entries, ibv_comp_channel* channel) {
  ibv_cq* cq = ibv_create_cq(context_, entries, nullptr, channel, 0);
  EXPECT_NE(cq, nullptr) << std::strerror(errno);
  return cq;
}

ibv_qp* DeviceTest::make_qp(ibv_cq* cq, ibv_qp_type type, ibv_srq* srq) {
  ibv_qp_init_attr init{};
  init.send_cq = cq;
  init.recv_cq = cq;
  init.srq = srq;
  init.qp_type = type;
  init.cap = {8, 8, 4, 2, 64};
  ibv_qp* qp = ibv_create_qp(pd_, &init);
  EXPECT_NE(qp, nullptr) << std::strerror(errno);
  return qp;
}

void DeviceTest::move(ibv_qp* qp, ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  EXPECT_EQ(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
}

void DeviceTest::complete(ibv_cq* cq, ibv_qp* qp, std::uint32_t index, bool receive,
                          ibv_wc_status status) {
  abi::CompletionElement element{};
  element.qpn = qp->qp_num;
  element.index = index;
  element.status = static_cast<std::uint8_t>(status);
  element.opcode = static_cast<std::uint8_t>(receive ? IBV_WC_RECV : IBV_WC_SEND);
  element.is_receive = receive ? 1 : 0;
  fake(cq).push(&element);
}

std::vector<ibv_send_wr> send_chain(std::size_t count, std::uint64_t first, unsigned flags) {
  std::vector<ibv_send_wr> chain(count);
  for (std::size_t i = 0; i < count; ++i) {
    chain[i].wr_id = first + i;
    chain[i].opcode = IBV_WR_SEND;
    chain[i].send_flags = flags;
    chain[i].next = i + 1 < count ? &chain[i + 1] : nullptr;
  }
  return chain;
}

}  // namespace softhca::provider::test
