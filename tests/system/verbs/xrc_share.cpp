// SPDX-License-Identifier: Apache-2.0

// A domain of extended reliable connected service that two processes share by a file: one makes a
// target, the other opens it, and goes on with it when its maker has ended.
//
// usage: xrc-share DEVICE GID-INDEX FILE
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/system/programs.hpp"

namespace {

constexpr std::size_t kBytes = 20000;

ibv_xrcd* open_domain(ibv_context* context, int fd, int flags) {
  ibv_xrcd_init_attr init{};
  init.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  init.fd = fd;
  init.oflags = flags;
  return ibv_open_xrcd(context, &init);
}

void expect_no_domain(ibv_context* context, int fd, int flags, int error, const char* what) {
  errno = 0;
  expect(open_domain(context, fd, flags) == nullptr && errno == error, what);
}

/// Makes the domain and a target, tells its number, and ends when told to.
int make_target(const char* device, int fd, int tell, int listen) {
  ibv_context* context = open_device(device);
  expect_no_domain(context, fd, 0, EAGAIN, "a domain that does not exist");
  ibv_xrcd* domain = open_domain(context, fd, O_CREAT | O_EXCL);
  expect(domain != nullptr, "making the domain");
  ibv_qp_init_attr_ex init{};
  init.qp_type = IBV_QPT_XRC_RECV;
  init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  init.xrcd = domain;
  ibv_qp* target = ibv_create_qp_ex(context, &init);
  expect(target != nullptr, "making the target");
  expect(ibv_close_xrcd(domain) == EBUSY, "closing a domain in use");
  char byte = 0;
  expect(write(tell, &target->qp_num, sizeof target->qp_num) == sizeof target->qp_num, "pipe");
  expect(read(listen, &byte, 1) == 1, "pipe");
  expect(ibv_destroy_qp(target) == 0, "leaving the target");
  expect(ibv_close_xrcd(domain) == 0, "closing the domain");
  expect(ibv_close_device(context) == 0, "closing the device");
  return 0;
}

struct Queues {
  ibv_pd* pd = nullptr;
  ibv_cq *send_cq = nullptr, *receive_cq = nullptr;
  ibv_mr* mr = nullptr;
  ibv_srq* srq = nullptr;
  ibv_qp* initiator = nullptr;
};

Queues make_queues(ibv_context* context, ibv_xrcd* domain, char* memory) {
  Queues q;
  q.pd = ibv_alloc_pd(context);
  q.send_cq = ibv_create_cq(context, 4, nullptr, nullptr, 0);
  q.receive_cq = ibv_create_cq(context, 4, nullptr, nullptr, 0);
  q.mr = ibv_reg_mr(q.pd, memory, 2 * kBytes, IBV_ACCESS_LOCAL_WRITE);
  ibv_srq_init_attr_ex srq{};
  srq.attr = {4, 1, 0};
  srq.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  srq.srq_type = IBV_SRQT_XRC;
  srq.pd = q.pd;
  srq.xrcd = domain;
  srq.cq = q.receive_cq;
  q.srq = ibv_create_srq_ex(context, &srq);
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_XRC_SEND;
  init.send_cq = q.send_cq;
  init.cap.max_send_wr = init.cap.max_send_sge = 1;
  q.initiator = ibv_create_qp(q.pd, &init);
  expect(q.mr != nullptr && q.srq != nullptr && q.initiator != nullptr, "making the queues");
  return q;
}

/// The first half of the memory goes to the second, by way of `target`.
void exchange(const Queues& q, char* memory, const ibv_qp& target) {
  std::uint32_t number = 0;
  expect(ibv_get_srq_num(q.srq, &number) == 0, "the number of the queue");
  ibv_sge to{reinterpret_cast<std::uintptr_t>(memory + kBytes), kBytes, q.mr->lkey};
  ibv_recv_wr receive{4711, nullptr, &to, 1};
  ibv_recv_wr* bad_receive = nullptr;
  expect(ibv_post_srq_recv(q.srq, &receive, &bad_receive) == 0, "posting a receive");
  ibv_sge from{reinterpret_cast<std::uintptr_t>(memory), kBytes, q.mr->lkey};
  ibv_send_wr send{};
  send.qp_type.xrc.remote_srqn = number;
  for (std::size_t i = 0; i < kBytes; ++i) memory[i] = static_cast<char>(i * 7);
  post_send(q.initiator, &from, 1, send);
  wait_for(q.send_cq, "the send");
  const ibv_wc wc = wait_for(q.receive_cq, "the receive");
  expect(wc.wr_id == 4711 && wc.qp_num == target.qp_num && wc.byte_len == kBytes, "what it says");
  expect(std::memcmp(memory, memory + kBytes, kBytes) == 0, "what came");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: xrc-share DEVICE GID-INDEX FILE\n"), 2;
  const int gid_index = std::atoi(argv[2]);
  const int fd = open(argv[3], O_RDONLY | O_CREAT, 0600);
  int up[2], down[2];
  expect(fd >= 0 && pipe(up) == 0 && pipe(down) == 0, argv[3]);
  const pid_t maker = fork();
  if (maker == 0) return make_target(argv[1], fd, up[1], down[0]);

  std::uint32_t number = 0;
  expect(read(up[0], &number, sizeof number) == sizeof number, "no target");
  ibv_context* context = open_device(argv[1]);
  ibv_gid gid{};
  expect(ibv_query_gid(context, 1, gid_index, &gid) == 0, "the GID");
  expect_no_domain(context, fd, O_CREAT | O_EXCL, EINVAL, "a domain of one's own");
  ibv_xrcd* domain = open_domain(context, fd, 0);
  expect(domain != nullptr, "opening the domain");
  ibv_qp_open_attr attr{};
  attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
  attr.xrcd = domain;
  attr.qp_type = IBV_QPT_XRC_RECV;
  attr.qp_num = number + 1;
  expect(ibv_open_qp(context, &attr) == nullptr && errno == EINVAL, "a target that is none");
  attr.qp_num = number;
  ibv_qp* target = ibv_open_qp(context, &attr);
  expect(target != nullptr && target->qp_num == number, "opening the target");

  static char memory[2 * kBytes];
  Queues q = make_queues(context, domain, memory);
  bring_up(target, q.initiator->qp_num, gid, gid_index);
  bring_up(q.initiator, number, gid, gid_index);
  exchange(q, memory, *target);
  int status = 0;
  expect(write(down[1], "", 1) == 1 && waitpid(maker, &status, 0) == maker && status == 0,
         "the process that made the target");
  std::memset(memory, 0, sizeof memory);
  exchange(q, memory, *target);

  expect(ibv_destroy_qp(q.initiator) == 0 && ibv_destroy_qp(target) == 0, "ending queue pairs");
  expect(ibv_close_xrcd(domain) == EBUSY, "closing a domain in use");
  expect(ibv_destroy_srq(q.srq) == 0 && ibv_close_xrcd(domain) == 0, "ending the domain");
  expect_no_domain(context, fd, 0, EAGAIN, "a domain that has ended");
  expect(ibv_dereg_mr(q.mr) == 0 && ibv_destroy_cq(q.send_cq) == 0 &&
             ibv_destroy_cq(q.receive_cq) == 0 && ibv_dealloc_pd(q.pd) == 0 &&
             ibv_close_device(context) == 0,
         "ending the rest");
  return 0;
}
