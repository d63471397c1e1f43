// SPDX-License-Identifier: Apache-2.0

// A program of plain verbs that sends a page of a file that its server withholds (held_file.cpp).
// Each access to that memory blocks.
//
// usage: faulting DEVICE FILE
// Says "failed" when the message has failed. Goes on when its input ends, and says "served" when
// such a message has arrived.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace {

[[noreturn]] void die(const char* what) {
  std::perror(what);
  ::_exit(1);
}

void* map(const char* file) {
  const int fd = ::open(file, O_RDONLY | O_CLOEXEC);
  void* at = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  if (at == MAP_FAILED) die(file);
  return at;
}

void say(const char* what) {
  std::puts(what);
  std::fflush(stdout);
}

ibv_context* open_device(const std::string& name) {
  int count = 0;
  ibv_device** all = ibv_get_device_list(&count);
  for (int i = 0; i < count; ++i)
    if (name == ibv_get_device_name(all[i])) return ibv_open_device(all[i]);
  return nullptr;
}

/// A queue pair connected to itself.
class Loop {
 public:
  Loop(ibv_context* context, ibv_pd* pd) : cq_(ibv_create_cq(context, 4, nullptr, nullptr, 0)) {
    ibv_qp_init_attr made{};
    made.send_cq = made.recv_cq = cq_;
    made.cap = {.max_send_wr = 4,
                .max_recv_wr = 4,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    made.qp_type = IBV_QPT_RC;
    qp_ = cq_ != nullptr ? ibv_create_qp(pd, &made) : nullptr;
    if (qp_ == nullptr) die("a queue pair");
    connect(context);
  }
  ~Loop() {
    ibv_destroy_qp(qp_);
    ibv_destroy_cq(cq_);
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// From one region to the other, 8 bytes.
  void write(const ibv_mr& from, const ibv_mr& to) {
    ibv_sge entry{reinterpret_cast<std::uintptr_t>(from.addr), 8, from.lkey};
    ibv_send_wr request{};
    request.sg_list = &entry;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(to.addr);
    request.wr.rdma.rkey = to.rkey;
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(qp_, &request, &bad) != 0) die("posting");
  }
  ibv_wc_status wait() {
    ibv_wc done{};
    int count = 0;
    while (count == 0) count = ibv_poll_cq(cq_, 1, &done);
    if (count < 0) die("polling");
    return done.status;
  }

 private:
  void connect(ibv_context* context) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    change(a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_1024;
    a.dest_qp_num = qp_->qp_num;
    a.min_rnr_timer = 12;
    a.ah_attr.is_global = 1;
    a.ah_attr.port_num = 1;
    a.ah_attr.grh.hop_limit = 64;
    if (ibv_query_gid(context, 1, 0, &a.ah_attr.grh.dgid) != 0) die("the address");
    change(a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    a.qp_state = IBV_QPS_RTS;
    a.timeout = 14;
    a.retry_cnt = a.rnr_retry = 7;
    change(a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                  IBV_QP_MAX_QP_RD_ATOMIC);
  }
  void change(ibv_qp_attr& attributes, int mask) {
    if (ibv_modify_qp(qp_, &attributes, mask) != 0) die("connecting");
  }

  ibv_cq* cq_;
  ibv_qp* qp_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: faulting DEVICE FILE\n"), 2;
  void* page = map(argv[2]);
  alignas(64) static char there[64];
  ibv_context* context = open_device(argv[1]);
  ibv_pd* pd = context != nullptr ? ibv_alloc_pd(context) : nullptr;
  if (pd == nullptr) die("the device");
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  ibv_mr* from = ibv_reg_mr(pd, page, 4096, IBV_ACCESS_LOCAL_WRITE);
  ibv_mr* to = ibv_reg_mr(pd, there, sizeof there, kAccess);
  if (from == nullptr || to == nullptr) die("registering");
  std::memset(there, 1, sizeof there);
  {
    Loop loop(context, pd);
    loop.write(*from, *to);
    if (loop.wait() == IBV_WC_SUCCESS) die("a message from memory that is not there has arrived");
  }
  say("failed");
  while (std::getchar() != EOF) {
  }
  // The access comes back soon, and until then others fail.
  for (int i = 0; i < 10'000; ++i) {
    Loop loop(context, pd);
    loop.write(*from, *to);
    if (loop.wait() != IBV_WC_SUCCESS) {
      ::usleep(1000);
      continue;
    }
    static constexpr char kZeros[8] = {};
    if (std::memcmp(there, kZeros, sizeof kZeros) != 0 || there[8] != 1) die("wrong data");
    say("served");
    return 0;
  }
  die("it is not served again");
}
