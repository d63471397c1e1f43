// SPDX-License-Identifier: Apache-2.0

// Makes reliable connected queue pairs that never send anything. Each is connected to an arbitrary
// queue pair number at another address, with reads and atomics allowed each way. The program says
// "idle" and stays until its standard input ends.
//
// usage: idle-queue-pairs DEVICE GID-INDEX PEER-ADDRESS COUNT DEPTH READS
#include <arpa/inet.h>
#include <unistd.h>

#include "tests/system/programs.hpp"

namespace {

ibv_gid gid_of(const char* address) {
  ibv_gid gid{};
  gid.raw[10] = gid.raw[11] = 0xff;
  expect(::inet_pton(AF_INET, address, &gid.raw[12]) == 1, "an IPv4 address");
  return gid;
}

}  // namespace

int main(int argc, char** argv) {
  expect(argc == 7, "DEVICE GID-INDEX PEER-ADDRESS COUNT DEPTH READS");
  ibv_context* context = open_device(argv[1]);
  const ibv_gid peer = gid_of(argv[3]);
  const int count = std::atoi(argv[4]);
  const auto depth = static_cast<std::uint32_t>(std::atoi(argv[5]));
  const auto reads = static_cast<std::uint8_t>(std::atoi(argv[6]));
  ibv_pd* pd = ibv_alloc_pd(context);
  expect(pd != nullptr, "a protection domain");
  ibv_cq* cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
  expect(cq != nullptr, "a completion queue");
  for (int i = 0; i < count; ++i) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = {.max_send_wr = depth,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    init.qp_type = IBV_QPT_RC;
    ibv_qp* qp = ibv_create_qp(pd, &init);
    expect(qp != nullptr, "a queue pair");
    bring_up(qp, 2, peer, std::atoi(argv[2]), reads);
  }
  std::puts("idle");
  std::fflush(stdout);
  for (char byte = 0; ::read(STDIN_FILENO, &byte, 1) > 0;) {
  }
}
