// SPDX-License-Identifier: Apache-2.0

// A program with a UD queue pair of verbs that asks a client of queue pair 2, as softhca-ping does.
//
// usage: ud-ask DEVICE GID-INDEX ADDRESS NUMBER
#include <arpa/inet.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "softhca/datagrams.h"
#include "tests/system/programs.hpp"

namespace {

constexpr std::uint32_t kGrh = 40;
constexpr std::uint32_t kOwnNumber = 0xfeed;
constexpr unsigned char kGet = 0x01, kResponse = 0x81;
constexpr std::size_t kFromAt = 4, kKindAt = 8;

alignas(4096) unsigned char memory[2][4096];  // what is sent, what comes

void put(unsigned char* at, std::uint32_t value) {
  value = htonl(value);
  std::memcpy(at, &value, sizeof value);
}

ibv_ah* handle_for(ibv_pd* pd, int gid_index, const char* address) {
  ibv_ah_attr path{};
  path.is_global = 1;
  path.port_num = 1;
  path.grh.sgid_index = static_cast<std::uint8_t>(gid_index);
  path.grh.hop_limit = 64;
  path.grh.dgid.raw[10] = path.grh.dgid.raw[11] = 0xff;
  expect(inet_pton(AF_INET, address, path.grh.dgid.raw + 12) == 1, address);
  ibv_ah* ah = ibv_create_ah(pd, &path);
  expect(ah != nullptr, "an address handle");
  return ah;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return std::fprintf(stderr, "usage: ud-ask DEVICE GID-INDEX ADDRESS NUMBER\n"), 2;
  ibv_context* context = open_device(argv[1]);
  ibv_pd* pd = ibv_alloc_pd(context);
  ibv_cq* cq = ibv_create_cq(context, 16, nullptr, nullptr, 0);
  ibv_mr* mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_UD;
  init.send_cq = init.recv_cq = cq;
  init.cap = {4, 4, 1, 1, 0};
  ibv_qp* qp = ibv_create_qp(pd, &init);
  expect(mr != nullptr && qp != nullptr, "making the queues");
  bring_up_datagrams(qp, SOFTHCA_QKEY_PROGRAMS);
  ibv_sge to{reinterpret_cast<std::uintptr_t>(memory[1]), sizeof memory[1], mr->lkey};
  ibv_recv_wr receive{1, nullptr, &to, 1};
  ibv_recv_wr* bad = nullptr;
  expect(ibv_post_recv(qp, &receive, &bad) == 0, "posting a receive");

  put(memory[0], static_cast<std::uint32_t>(std::strtoul(argv[4], nullptr, 0)));
  put(memory[0] + kFromAt, kOwnNumber);
  memory[0][kKindAt] = kGet;
  ibv_sge from{reinterpret_cast<std::uintptr_t>(memory[0]), SOFTHCA_DATAGRAM_BYTES, mr->lkey};
  ibv_send_wr wr{};
  wr.wr.ud = {handle_for(pd, std::atoi(argv[2]), argv[3]), SOFTHCA_QPN_PROGRAMS,
              SOFTHCA_QKEY_PROGRAMS};
  post_send(qp, &from, 1, wr);
  ibv_wc wc = wait_for(cq, "the send");
  if (wc.opcode != IBV_WC_RECV) wc = wait_for(cq, "the answer");
  expect(wc.opcode == IBV_WC_RECV && wc.byte_len == kGrh + SOFTHCA_DATAGRAM_BYTES &&
             wc.src_qp == SOFTHCA_QPN_PROGRAMS,
         "an answer of queue pair 2");
  unsigned char wanted[4];
  put(wanted, kOwnNumber);
  expect(std::memcmp(memory[1] + kGrh, wanted, sizeof wanted) == 0 &&
             memory[1][kGrh + kKindAt] == kResponse,
         "the answer to the question");
  std::printf("answered by %s\n", reinterpret_cast<const char*>(memory[1] + kGrh + 24));
  return 0;
}
