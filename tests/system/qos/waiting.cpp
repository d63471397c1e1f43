// SPDX-License-Identifier: Apache-2.0

// Queue pairs with full send queues of which nothing more can be sent for now.
//
// usage: waiting DEVICE GID-INDEX QUEUE-PAIRS neighbour ADDRESS
//        waiting DEVICE GID-INDEX QUEUE-PAIRS fence PORT [ADDRESS]
//
// neighbour: the queue pairs send to an address that no host has, and wait for its link address.
// fence: each queue pair reads a word of its peer, and writes it, fenced, to all others. So the
// writes wait for the reads while the peer is silent. Two processes, one of which sends, meet over
// TCP and say "connected". A line of input lets the sender begin. At the end, the sender checks the
// memory of its peer.
//
// The program says "posted" when all commands are posted. It ends when all is done or when it is
// killed.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/system/meeting.hpp"
#include "tests/system/programs.hpp"

namespace {

constexpr int kDepth = 128;
constexpr int kMost = 256;
constexpr std::uint8_t kTimeout = 20;  // 4 s: silence is told from slowness only then

struct Device {
  ibv_context* context;
  ibv_pd* pd;
  ibv_mr* mr;
  ibv_gid gid;
  std::uint64_t words[kMost][kDepth];
};

/// What the other side has to know.
struct Hello {
  ibv_gid gid;
  std::uint64_t address;
  std::uint32_t key;
  std::uint32_t qpns[kMost];
};

void say(const char* what) {
  std::puts(what);
  std::fflush(stdout);
}

ibv_qp* make(const Device& device) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = ibv_create_cq(device.context, 2 * kDepth, nullptr, nullptr, 0);
  init.qp_type = IBV_QPT_RC;
  init.cap = {kDepth, 1, 1, 1, 0};
  ibv_qp* const qp = ibv_create_qp(device.pd, &init);
  expect(qp != nullptr, "making a queue pair");
  return qp;
}

void be_patient(ibv_qp* qp) {
  ibv_qp_attr attr{};
  attr.timeout = kTimeout;
  attr.qp_state = IBV_QPS_SQD;
  expect(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0, "to SQD");
  expect(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT) == 0, "setting the timeout");
  attr.qp_state = IBV_QPS_RTS;
  expect(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0, "back to RTS");
}

/// A read of the first word, then writes of it to all others, the first of them fenced.
void post_copies(Device& device, ibv_qp* qp, int number, const Hello& peer) {
  std::vector<ibv_send_wr> chain(kDepth);
  ibv_sge here{reinterpret_cast<std::uintptr_t>(device.words[number]), sizeof(std::uint64_t),
               device.mr->lkey};
  for (int i = 0; i < kDepth; ++i) {
    ibv_send_wr& wr = chain[static_cast<std::size_t>(i)];
    wr.wr_id = static_cast<std::uint64_t>(i);
    wr.next = i + 1 < kDepth ? &wr + 1 : nullptr;
    wr.sg_list = &here;
    wr.num_sge = 1;
    wr.opcode = i == 0 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    if (i == 1) wr.send_flags |= IBV_SEND_FENCE;
    wr.wr.rdma.remote_addr =
        peer.address + sizeof(std::uint64_t) * static_cast<std::uint64_t>(number * kDepth + i);
    wr.wr.rdma.rkey = peer.key;
  }
  ibv_send_wr* bad = nullptr;
  expect(ibv_post_send(qp, chain.data(), &bad) == 0, "posting");
}

int wait_for_neighbour(Device& device, int gid_index, int count, const char* address) {
  ibv_gid gid{};
  gid.raw[10] = gid.raw[11] = 0xff;
  expect(inet_pton(AF_INET, address, gid.raw + 12) == 1, "the address");
  std::vector<ibv_qp*> pairs;
  for (int i = 0; i < count; ++i) {
    pairs.push_back(make(device));
    bring_up(pairs.back(), 0x1234, gid, gid_index, 4);
    be_patient(pairs.back());
  }
  for (int i = 0; i < count; ++i) post_copies(device, pairs[static_cast<std::size_t>(i)], i, {});
  say("posted");
  pause();
  return 0;
}

int wait_for_fences(Device& device, int gid_index, int count, int port, const char* address) {
  const int fd = connected_socket(port, address);
  std::vector<ibv_qp*> pairs;
  static Hello mine, theirs;
  mine.gid = device.gid;
  mine.address = reinterpret_cast<std::uintptr_t>(device.words);
  mine.key = device.mr->rkey;
  for (int i = 0; i < count; ++i) {
    pairs.push_back(make(device));
    mine.qpns[i] = pairs.back()->qp_num;
    device.words[i][0] = address == nullptr ? static_cast<std::uint64_t>(1000 + i) : 0;
  }
  theirs = exchange(fd, mine);
  for (int i = 0; i < count; ++i) {
    ibv_qp* const qp = pairs[static_cast<std::size_t>(i)];
    bring_up(qp, theirs.qpns[i], theirs.gid, gid_index, 4);
    be_patient(qp);
  }
  exchange(fd, 1);
  say("connected");
  if (address != nullptr) {
    expect(std::getchar() == '\n', "no word to begin");
    for (int i = 0; i < count; ++i)
      post_copies(device, pairs[static_cast<std::size_t>(i)], i, theirs);
    say("posted");
    for (ibv_qp* qp : pairs)
      for (int i = 0; i < kDepth; ++i)
        expect(wait_for(qp->send_cq, "one does not go on").wr_id == static_cast<std::uint64_t>(i),
               "out of order");
  }
  exchange(fd, 2);
  if (address == nullptr)
    for (int i = 0; i < count; ++i)
      expect(std::count(device.words[i], device.words[i] + kDepth,
                        static_cast<std::uint64_t>(1000 + i)) == kDepth,
             "written before it was read");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string cause = argc > 5 ? argv[4] : "";
  if (cause != "neighbour" && cause != "fence")
    return std::fprintf(stderr,
                        "usage: waiting DEVICE GID-INDEX QUEUE-PAIRS neighbour ADDRESS\n"
                        "       waiting DEVICE GID-INDEX QUEUE-PAIRS fence PORT [ADDRESS]\n"),
           2;
  const int gid_index = std::atoi(argv[2]), count = std::atoi(argv[3]);
  expect(count > 0 && count <= kMost, "so many queue pairs");
  static Device device;
  device.context = open_device(argv[1]);
  device.pd = ibv_alloc_pd(device.context);
  device.mr = ibv_reg_mr(device.pd, device.words, sizeof device.words,
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  expect(device.mr != nullptr, "registering memory");
  expect(ibv_query_gid(device.context, 1, gid_index, &device.gid) == 0, "the GID");
  if (cause == "neighbour") return wait_for_neighbour(device, gid_index, count, argv[5]);
  return wait_for_fences(device, gid_index, count, std::atoi(argv[5]),
                         argc > 6 ? argv[6] : nullptr);
}
