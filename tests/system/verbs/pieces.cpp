// SPDX-License-Identifier: Apache-2.0

// Builds commands slowly with the ibv_wr_ calls. Two are built at a time, one waits while others
// are posted, and many are aborted. At the end, some are never finished.
//
// usage: pieces DEVICE GID-INDEX
#include <unistd.h>

#include "tests/system/programs.hpp"

namespace {

constexpr int kDepth = 64;
constexpr int kQueuePairs = 16;
constexpr int kMany = 1000;

struct End {
  ibv_cq* cq;
  ibv_qp_ex* qp;
};

struct Words {
  std::uint64_t from[kQueuePairs];
  std::uint64_t to[kQueuePairs];
};

Words words;
ibv_mr* mr;

/// A queue pair that is connected to itself.
End make_end(ibv_context* context, ibv_pd* pd, const ibv_gid& gid, int gid_index) {
  End end{};
  end.cq = ibv_create_cq(context, kDepth, nullptr, nullptr, 0);
  ibv_qp_init_attr_ex init{};
  init.send_cq = init.recv_cq = end.cq;
  init.qp_type = IBV_QPT_RC;
  init.cap = {kDepth, 1, 1, 1, 16};
  init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  init.pd = pd;
  init.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
  ibv_qp* const qp = ibv_create_qp_ex(context, &init);
  expect(qp != nullptr, "making a queue pair");
  bring_up(qp, qp->qp_num, gid, gid_index);
  end.qp = ibv_qp_to_qp_ex(qp);
  return end;
}

std::uint64_t address_of(const std::uint64_t& w) { return reinterpret_cast<std::uintptr_t>(&w); }

/// The first pieces of a write of word `i`: everything but what they are to be executed by.
void begin(const End& end, int i, std::uint64_t value) {
  words.from[i] = value;
  ibv_wr_start(end.qp);
  end.qp->wr_id = static_cast<std::uint64_t>(i);
  end.qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(end.qp, mr->rkey, address_of(words.to[i]));
}
void go_on(const End& end, int i) {
  ibv_wr_set_sge(end.qp, mr->lkey, address_of(words.from[i]), sizeof words.from[i]);
}
void finish(const End& end) { expect(ibv_wr_complete(end.qp) == 0, "posting a write"); }

void expect_written(const End& end, int i, std::uint64_t value) {
  expect(wait_for(end.cq, "a write").wr_id == static_cast<std::uint64_t>(i), "whose completion?");
  expect(words.to[i] == value, "what was written");
}

void write(const End& end, int i, std::uint64_t value) {
  begin(end, i, value);
  go_on(end, i);
  finish(end);
  expect_written(end, i, value);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: pieces DEVICE GID-INDEX\n"), 2;
  const int gid_index = std::atoi(argv[2]);
  ibv_context* const context = open_device(argv[1]);
  ibv_pd* const pd = ibv_alloc_pd(context);
  ibv_gid gid{};
  expect(ibv_query_gid(context, 1, gid_index, &gid) == 0, "the GID");
  mr = ibv_reg_mr(pd, &words, sizeof words, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  expect(mr != nullptr, "registering memory");
  End ends[kQueuePairs];
  for (End& end : ends) end = make_end(context, pd, gid, gid_index);
  const End &one = ends[0], &other = ends[1];

  // Two at a time, the first one begun being finished last.
  for (std::uint64_t i = 1; i <= kMany; ++i) {
    begin(one, 0, i);
    begin(other, 1, i + kMany);
    go_on(one, 0);
    go_on(other, 1);
    finish(other);
    finish(one);
    expect_written(one, 0, i);
    expect_written(other, 1, i + kMany);
  }

  // One waits for longer than the adapter looks out for its next piece; others are posted
  // meanwhile.
  begin(one, 0, 4711);
  usleep(20000);
  for (std::uint64_t i = 0; i < kMany; ++i) write(other, 1, i);
  expect(words.to[0] == kMany, "executed before it was posted");
  go_on(one, 0);
  usleep(20000);
  finish(one);
  expect_written(one, 0, 4711);

  // Aborts more commands than there are buffers. The next command must not contain an aborted one.
  for (std::uint64_t i = 0; i < kMany; ++i) {
    begin(one, 0, 1);
    if (i % 2 == 0) go_on(one, 0);
    ibv_wr_abort(one.qp);
    if (i % 16 == 0) write(one, 0, 100 + i);
  }
  write(one, 0, 5);
  expect(ibv_poll_cq(one.cq, 1, nullptr) == 0, "nothing else");

  for (int i = 0; i < kQueuePairs; ++i) {
    begin(ends[i], i, 77);
    if (i % 2 == 0) go_on(ends[i], i);
  }
  std::printf("begun\n");
  std::fflush(stdout);
  pause();
  return 0;
}
