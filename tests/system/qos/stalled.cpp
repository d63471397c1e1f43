// SPDX-License-Identifier: Apache-2.0

// Queue pairs with full send queues and receivers that are not ready, beside one with a receiver
// that is ready. That one must make progress, and each other one as soon as its receiver is ready.
// Two processes, one of which sends, meet over TCP.
//
// usage: stalled DEVICE GID-INDEX QUEUE-PAIRS PORT [ADDRESS]
#include <unistd.h>

#include <vector>

#include "tests/system/meeting.hpp"
#include "tests/system/programs.hpp"

namespace {

constexpr int kDepth = 256;
constexpr int kChain = 16;  // longer than what goes into collect buffers
constexpr int kMostStalled = 4096;
// Up to this many go on one after the other, so that the test can check what each receives. More
// than that go on at once.
constexpr std::size_t kOneByOne = 64;

struct End {
  ibv_cq* cq;
  ibv_qp* qp;
};

struct Device {
  ibv_context* context;
  ibv_pd* pd;
  ibv_mr* mr;
  ibv_gid gid;
  std::uint32_t memory[2 * kDepth];

  ibv_sge word(int i) {
    return {reinterpret_cast<std::uintptr_t>(&memory[i]), sizeof memory[0], mr->lkey};
  }
};

End make_end(const Device& device) {
  End end{};
  end.cq = ibv_create_cq(device.context, kDepth, nullptr, nullptr, 0);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = end.cq;
  init.qp_type = IBV_QPT_RC;
  init.cap = {kDepth, kDepth, 1, 1, 0};
  end.qp = ibv_create_qp(device.pd, &init);
  expect(end.qp != nullptr, "making a queue pair");
  return end;
}

struct Hello {
  ibv_gid gid;
  std::uint32_t qpns[kMostStalled + 1];
};

void send_chain(Device& device, const End& end, int count) {
  std::vector<ibv_sge> list(static_cast<std::size_t>(count));
  std::vector<ibv_send_wr> chain(list.size());
  for (int i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    list[at] = device.word(i);
    chain[at].wr_id = at;
    chain[at].next = i + 1 < count ? &chain[at + 1] : nullptr;
    chain[at].sg_list = &list[at];
    chain[at].num_sge = 1;
    chain[at].opcode = IBV_WR_SEND;
    chain[at].send_flags = IBV_SEND_SIGNALED;
  }
  ibv_send_wr* bad = nullptr;
  expect(ibv_post_send(end.qp, chain.data(), &bad) == 0, "posting sends");
}

void post_receives(Device& device, const End& end, int count) {
  for (int i = 0; i < count; ++i) {
    ibv_sge list = device.word(kDepth + i);
    ibv_recv_wr receive{static_cast<std::uint64_t>(i), nullptr, &list, 1};
    ibv_recv_wr* bad = nullptr;
    expect(ibv_post_recv(end.qp, &receive, &bad) == 0, "posting receives");
  }
}

void expect_all(const End& end, int count, const char* what) {
  for (int i = 0; i < count; ++i)
    expect(wait_for(end.cq, what).wr_id == static_cast<std::uint64_t>(i), "out of order");
}

void expect_content(const Device& device, int count) {
  for (int i = 0; i < count; ++i)
    expect(device.memory[kDepth + i] == static_cast<std::uint32_t>(i), "wrong content");
}

/// Each of them when its receiver is ready.
void expect_that_all_go_on(Device& device, const std::vector<End>& ends, bool sends) {
  const bool at_once = ends.size() > kOneByOne;
  if (!sends && at_once)
    for (const End& end : ends) post_receives(device, end, kDepth);
  for (const End& end : ends) {
    if (!sends && !at_once) {
      std::memset(device.memory + kDepth, 0xff, sizeof device.memory / 2);
      post_receives(device, end, kDepth);
    }
    expect_all(end, kDepth, "one does not go on when its receiver is ready");
    if (!sends) expect_content(device, kDepth);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5)
    return std::fprintf(stderr, "usage: stalled DEVICE GID-INDEX QUEUE-PAIRS PORT [ADDRESS]\n"), 2;
  const int gid_index = std::atoi(argv[2]), stalled = std::atoi(argv[3]);
  const bool sends = argc > 5;
  static Device device;
  device.context = open_device(argv[1]);
  device.pd = ibv_alloc_pd(device.context);
  device.mr = ibv_reg_mr(device.pd, device.memory, sizeof device.memory, IBV_ACCESS_LOCAL_WRITE);
  expect(device.mr != nullptr, "registering memory");
  expect(ibv_query_gid(device.context, 1, gid_index, &device.gid) == 0, "the GID");
  for (int i = 0; i < kDepth; ++i) device.memory[i] = static_cast<std::uint32_t>(i);

  const int fd = connected_socket(std::atoi(argv[4]), sends ? argv[5] : nullptr);
  std::vector<End> ends;
  expect(stalled <= kMostStalled, "so many queue pairs");
  static Hello mine, theirs;
  mine.gid = device.gid;
  for (int i = 0; i <= stalled; ++i) {
    ends.push_back(make_end(device));
    mine.qpns[i] = ends.back().qp->qp_num;
  }
  theirs = exchange(fd, mine);
  for (int i = 0; i <= stalled; ++i)
    bring_up(ends[static_cast<std::size_t>(i)].qp, theirs.qpns[i], theirs.gid, gid_index);
  const End other = ends.back();
  ends.pop_back();
  exchange(fd, 1);

  // The first word comes last, so that the content is of this message.
  if (sends)
    for (const End& end : ends) send_chain(device, end, kDepth);
  else
    post_receives(device, other, kChain);
  usleep(200000);  // they are refused, and refused again
  exchange(fd, 2);
  if (sends) send_chain(device, other, kChain);
  expect_all(other, kChain, "it waits for queue pairs with receivers that are not ready");
  if (!sends) expect_content(device, kChain);
  exchange(fd, 3);
  expect_that_all_go_on(device, ends, sends);
  exchange(fd, 4);
  return 0;
}
