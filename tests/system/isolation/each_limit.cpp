// SPDX-License-Identifier: Apache-2.0

// Asks for objects of one kind until the daemon refuses one. Prints how many it got, and the name
// of errno.
//
// usage: each-limit DEVICE GID-INDEX KEY     KEY: of the tenant's limit in the configuration
#include <sys/mman.h>

#include <functional>
#include <map>
#include <string>

#include "tests/system/programs.hpp"

namespace {

// Every limit that the test sets is far below.
constexpr int kMost = 4096;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kLargeMemory = std::size_t{8} << 20;
constexpr int kLargeQueue = 65536;

struct Device {
  const char* name;
  ibv_context* context;
  ibv_pd* pd;
  ibv_cq* cq;
  ibv_gid gid;
  std::uint8_t gid_index;
};

/// Registers memory of its own, apart from all other memory.
bool register_memory(const Device& device, std::size_t bytes) {
  // The page behind it stays without access, so that no two areas become one.
  void* const memory =
      ::mmap(nullptr, bytes + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  expect(memory != MAP_FAILED && ::mprotect(memory, bytes, PROT_READ | PROT_WRITE) == 0, "memory");
  return ibv_reg_mr(device.pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE) != nullptr;
}

bool open_again(const Device& device) {
  ibv_device** const list = ibv_get_device_list(nullptr);
  expect(list != nullptr && list[0] != nullptr, "list of devices");
  const bool opened = ibv_open_device(list[0]) != nullptr;
  const int error = errno;
  ibv_free_device_list(list);
  errno = error;
  return opened && device.context != nullptr;
}

bool create_qp(const Device& device) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = device.cq;
  init.cap = {.max_send_wr = 1,
              .max_recv_wr = 1,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  init.qp_type = IBV_QPT_RC;
  return ibv_create_qp(device.pd, &init) != nullptr;
}

bool create_srq(const Device& device) {
  ibv_srq_init_attr init{};
  init.attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0};
  return ibv_create_srq(device.pd, &init) != nullptr;
}

bool create_ah(const Device& device) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.dgid = device.gid;
  attr.grh.sgid_index = device.gid_index;
  return ibv_create_ah(device.pd, &attr) != nullptr;
}

bool create_cq(const Device& device, int entries) {
  return ibv_create_cq(device.context, entries, nullptr, nullptr, 0) != nullptr;
}

const std::map<std::string, std::function<bool(const Device&)>> kMakers = {
    {"sessions", open_again},
    {"queue_pairs", create_qp},
    {"completion_queues", [](const Device& d) { return create_cq(d, 1); }},
    {"shared_receive_queues", create_srq},
    {"memory_regions", [](const Device& d) { return register_memory(d, kPage); }},
    {"memory_windows",
     [](const Device& d) { return ibv_alloc_mw(d.pd, IBV_MW_TYPE_2) != nullptr; }},
    {"protection_domains", [](const Device& d) { return ibv_alloc_pd(d.context) != nullptr; }},
    {"address_handles", create_ah},
    {"registered_bytes", [](const Device& d) { return register_memory(d, kLargeMemory); }},
    {"shared_bytes", [](const Device& d) { return register_memory(d, kLargeMemory); }},
    {"queue_bytes", [](const Device& d) { return create_cq(d, kLargeQueue); }},
    {"descriptors", [](const Device& d) { return ibv_create_comp_channel(d.context) != nullptr; }},
    {"mappings", [](const Device& d) { return register_memory(d, kPage); }},
};

}  // namespace

int main(int argc, char** argv) {
  expect(argc == 4 && kMakers.contains(argv[3]), "DEVICE GID-INDEX KEY");
  Device device{.name = argv[1],
                .context = open_device(argv[1]),
                .pd = nullptr,
                .cq = nullptr,
                .gid = {},
                .gid_index = static_cast<std::uint8_t>(std::atoi(argv[2]))};
  expect(ibv_query_gid(device.context, 1, device.gid_index, &device.gid) == 0, "a GID");
  device.pd = ibv_alloc_pd(device.context);
  expect(device.pd != nullptr, "a protection domain");
  device.cq = ibv_create_cq(device.context, 1, nullptr, nullptr, 0);
  expect(device.cq != nullptr, "a completion queue");
  for (int made = 0; made < kMost; ++made) {
    errno = 0;
    if (kMakers.at(argv[3])(device)) continue;
    std::printf("%s %d %s\n", argv[3], made, errno == 0 ? "0" : ::strerrorname_np(errno));
    return 0;
  }
  std::printf("%s %d none\n", argv[3], kMost);
}
