// Many reliable connections on one shared receive queue, each connected to itself, so that one
// process needs no partner: what a queue pair costs the daemon, and how the others fare while one
// of them sends without end and nobody posts its buffers again.
//
// usage: softhca-srq-scale DEVICE GID-INDEX QUEUE-PAIRS BUFFERS PID-OF-DAEMON
// Exit code 1 when a message of the others is lost or fails.
#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

namespace {

constexpr std::uint32_t kBytes = 64;
constexpr std::uint32_t kRunawayDepth = 512;

[[noreturn]] void die(const char* what) {
  std::fprintf(stderr, "srq-scale: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

/// Resident memory of a process in KiB, what it shares with others included.
std::size_t resident(const char* pid) {
  std::ifstream status(std::string("/proc/") + pid + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) return std::strtoull(line.c_str() + 6, nullptr, 10);
  die("VmRSS of the daemon");
}

struct Bench {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* send_cq = nullptr;
  ibv_cq* receive_cq = nullptr;
  ibv_srq* srq = nullptr;
  ibv_mr* mr = nullptr;
  ibv_gid gid{};
  std::uint8_t gid_index = 0;
  std::vector<char> memory;
  std::vector<ibv_qp*> qps;
  std::uint32_t runaway = 0;  ///< queue pair number
  std::uint64_t of_runaway = 0, of_others = 0, failed = 0;
};

void post(Bench& b, std::uint64_t buffer) {
  ibv_sge sge{reinterpret_cast<std::uint64_t>(b.memory.data() + buffer * kBytes), kBytes,
              b.mr->lkey};
  ibv_recv_wr wr{.wr_id = buffer, .next = nullptr, .sg_list = &sge, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  if (ibv_post_srq_recv(b.srq, &wr, &bad) != 0) die("ibv_post_srq_recv");
}

void open(Bench& b, const char* name, std::uint32_t buffers) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  for (int i = 0; i < count; ++i)
    if (std::strcmp(ibv_get_device_name(list[i]), name) == 0) b.context = ibv_open_device(list[i]);
  if (b.context == nullptr) die(name);
  b.pd = ibv_alloc_pd(b.context);
  b.send_cq = ibv_create_cq(b.context, 4096, nullptr, nullptr, 0);
  b.receive_cq = ibv_create_cq(b.context, static_cast<int>(2 * buffers), nullptr, nullptr, 0);
  ibv_srq_init_attr attr{};
  attr.attr.max_wr = buffers;
  attr.attr.max_sge = 1;
  b.srq = ibv_create_srq(b.pd, &attr);
  b.memory.resize(std::size_t{buffers} * kBytes);
  b.mr = ibv_reg_mr(b.pd, b.memory.data(), b.memory.size(), IBV_ACCESS_LOCAL_WRITE);
  if (b.srq == nullptr || b.mr == nullptr || b.send_cq == nullptr || b.receive_cq == nullptr)
    die("set-up");
  if (ibv_query_gid(b.context, 1, b.gid_index, &b.gid) != 0) die("ibv_query_gid");
  for (std::uint32_t i = 0; i < buffers; ++i) post(b, i);
}

ibv_qp* create(Bench& b, std::uint32_t depth) {
  ibv_qp_init_attr attr{};
  attr.send_cq = b.send_cq;
  attr.recv_cq = b.receive_cq;
  attr.srq = b.srq;
  attr.cap.max_send_wr = depth;
  attr.cap.max_send_sge = 1;
  attr.qp_type = IBV_QPT_RC;
  ibv_qp* qp = ibv_create_qp(b.pd, &attr);
  if (qp == nullptr) die("ibv_create_qp");
  return qp;
}

void connect_to_itself(Bench& b, ibv_qp* qp) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = 1;
  if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
    die("INIT");
  a.qp_state = IBV_QPS_RTR;
  a.path_mtu = IBV_MTU_1024;
  a.dest_qp_num = qp->qp_num;
  a.min_rnr_timer = 12;
  a.max_dest_rd_atomic = 1;
  a.ah_attr.is_global = 1;
  a.ah_attr.grh.dgid = b.gid;
  a.ah_attr.grh.sgid_index = b.gid_index;
  a.ah_attr.grh.hop_limit = 1;
  a.ah_attr.port_num = 1;
  if (ibv_modify_qp(qp, &a,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
    die("RTR");
  a.qp_state = IBV_QPS_RTS;
  a.timeout = 14;
  a.retry_cnt = a.rnr_retry = 7;
  a.max_rd_atomic = 1;
  if (ibv_modify_qp(qp, &a,
                    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                        IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
    die("RTS");
}

void send(Bench& b, ibv_qp* qp) {
  ibv_sge sge{reinterpret_cast<std::uint64_t>(b.memory.data()), 8, b.mr->lkey};
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(qp, &wr, &bad) != 0) die("ibv_post_send");
}

/// Buffers of the others are posted again at once, those of the runaway never.
void poll(Bench& b) {
  ibv_wc wc[32];
  for (int n = ibv_poll_cq(b.send_cq, 32, wc); n > 0; --n)
    b.failed += wc[n - 1].status == IBV_WC_SUCCESS ? 0 : 1;
  for (int n = ibv_poll_cq(b.receive_cq, 32, wc); n > 0; --n) {
    const ibv_wc& c = wc[n - 1];
    b.failed += c.status == IBV_WC_SUCCESS ? 0 : 1;
    if (c.qp_num == b.runaway) {
      ++b.of_runaway;
      continue;
    }
    ++b.of_others;
    post(b, c.wr_id);
  }
}

/// One message of each of the others, a few under way at once; false: they stopped arriving.
bool round(Bench& b) {
  using Clock = std::chrono::steady_clock;
  const std::uint64_t before = b.of_others;
  std::size_t next = 1;
  std::uint64_t last = before;
  auto progress = Clock::now();
  while (b.of_others - before < b.qps.size() - 1) {
    while (next < b.qps.size() && next - 1 - (b.of_others - before) < 64) send(b, b.qps[next++]);
    poll(b);
    if (b.of_others != last) {
      last = b.of_others;
      progress = Clock::now();
    }
    if (Clock::now() - progress > std::chrono::seconds(10)) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: softhca-srq-scale DEVICE GID-INDEX QUEUE-PAIRS BUFFERS PID\n");
    return 2;
  }
  Bench b;
  b.gid_index = static_cast<std::uint8_t>(std::atoi(argv[2]));
  const std::size_t count = std::strtoul(argv[3], nullptr, 10);
  const auto buffers = static_cast<std::uint32_t>(std::strtoul(argv[4], nullptr, 10));
  open(b, argv[1], buffers);

  const std::size_t before = resident(argv[5]);
  const std::size_t own_before = resident("self");
  b.qps.push_back(create(b, kRunawayDepth));
  while (b.qps.size() < count) b.qps.push_back(create(b, 1));
  for (ibv_qp* qp : b.qps) connect_to_itself(b, qp);
  b.runaway = b.qps[0]->qp_num;
  const std::size_t connected = resident(argv[5]);
  std::printf("%zu queue pairs on one shared receive queue of %u buffers\n", count, buffers);
  std::printf("daemon: %zu bytes a queue pair (rings included)\n",
              (connected - before) * 1024 / count);
  std::printf("program: %zu bytes a queue pair\n", (resident("self") - own_before) * 1024 / count);

  for (std::uint32_t i = 0; i < kRunawayDepth; ++i) send(b, b.qps[0]);
  const bool all = round(b) && round(b);
  std::printf("daemon, after traffic: %zu bytes a queue pair\n",
              (resident(argv[5]) - before) * 1024 / count);
  std::printf("runaway: %llu of %u messages; others: %llu of %zu; failed: %llu\n",
              static_cast<unsigned long long>(b.of_runaway), kRunawayDepth,
              static_cast<unsigned long long>(b.of_others), 2 * (count - 1),
              static_cast<unsigned long long>(b.failed));
  return all && b.failed == 0 ? 0 : 1;
}
