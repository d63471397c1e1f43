// A tenant that breaks the rules: opens the device, makes queue pairs that work, then writes random
// bytes over all memory it shares with the daemon, again and again, and posts in between.
//
// usage: scribble DEVICE GID-INDEX SEED MILLISECONDS
#include <infiniband/verbs.h>
#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <csetjmp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace {

struct Mapping {
  std::uint64_t* words;
  std::size_t count;
};

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

template <class T>
T* need(T* object, const char* what) {
  if (!object) die(what);
  return object;
}

ibv_context* open_device(const char* name) {
  int count = 0;
  ibv_device** devices = need(ibv_get_device_list(&count), "device list");
  for (int i = 0; i < count; ++i)
    if (std::strcmp(ibv_get_device_name(devices[i]), name) == 0)
      return need(ibv_open_device(devices[i]), "open");
  std::fprintf(stderr, "no device %s\n", name);
  std::exit(1);
}

/// Everything writable that is shared with another process.
std::vector<Mapping> shared_mappings() {
  std::vector<Mapping> result;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t from, to;
    char mode[8];
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %7s", &from, &to, mode) != 3) continue;
    if (std::strcmp(mode, "rw-s") != 0) continue;
    result.push_back({reinterpret_cast<std::uint64_t*>(from), (to - from) / 8});
  }
  return result;
}

struct Pair {
  ibv_qp* qp;
  ibv_cq* cq;
};

class Victim {
 public:
  Victim(const char* device, int gid_index) : gid_index_(gid_index) {
    context_ = open_device(device);
    pd_ = need(ibv_alloc_pd(context_), "pd");
    buffer_.resize(1 << 16);
    mr_ =
        need(ibv_reg_mr(pd_, buffer_.data(), buffer_.size(),
                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ),
             "mr");
    if (ibv_query_gid(context_, 1, gid_index_, &gid_)) die("gid");
    a_ = make_pair();
    b_ = make_pair();
    connect(a_.qp, b_.qp->qp_num);
    connect(b_.qp, a_.qp->qp_num);
  }

  /// What comes of it does not matter: our own queue pairs may well be broken.
  void post_and_poll() {
    ibv_sge sge{reinterpret_cast<std::uint64_t>(buffer_.data()), 4096, mr_->lkey};
    ibv_send_wr write{};
    write.sg_list = &sge;
    write.num_sge = 1;
    write.opcode = IBV_WR_RDMA_WRITE;
    write.send_flags = IBV_SEND_SIGNALED;
    write.wr.rdma = {sge.addr + 8192, mr_->rkey};
    ibv_send_wr* bad_send = nullptr;
    ibv_post_send(a_.qp, &write, &bad_send);
    ibv_recv_wr receive{};
    receive.sg_list = &sge;
    receive.num_sge = 1;
    ibv_recv_wr* bad_receive = nullptr;
    ibv_post_recv(b_.qp, &receive, &bad_receive);
    ibv_wc completions[8];
    ibv_poll_cq(a_.cq, 8, completions);
    ibv_poll_cq(b_.cq, 8, completions);
  }

 private:
  Pair make_pair() {
    Pair pair{};
    pair.cq = need(ibv_create_cq(context_, 256, nullptr, nullptr, 0), "cq");
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = pair.cq;
    init.cap = {64, 64, 4, 4, 64};
    init.qp_type = IBV_QPT_RC;
    pair.qp = need(ibv_create_qp(pd_, &init), "qp");
    return pair;
  }

  void connect(ibv_qp* qp, std::uint32_t peer) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    if (ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
      die("init");
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.dgid = gid_;
    attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index_);
    attr.ah_attr.grh.hop_limit = 64;
    attr.ah_attr.port_num = 1;
    if (ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
      die("rtr");
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    if (ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
      die("rts");
  }

  int gid_index_;
  ibv_context* context_;
  ibv_pd* pd_;
  ibv_mr* mr_;
  ibv_gid gid_{};
  std::vector<char> buffer_;
  Pair a_{}, b_{};
};

/// Words that look like something, more often than chance would have it.
std::uint64_t word(std::mt19937_64& random) {
  switch (random() % 4) {
    case 0:
      return 0;
    case 1:
      return ~std::uint64_t{0};
    case 2:
      return random() & 0x0000ffff0000ffff;
    default:
      return random();
  }
}

// The library in this process may stumble over what we write; that is our own problem, and from
// then on we only write.
sigjmp_buf stumbled;
void on_fault(int) { siglongjmp(stumbled, 1); }
void on_alarm(int) { std::_Exit(0); }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return std::fprintf(stderr, "usage: scribble DEVICE GID SEED MILLISECONDS\n"), 2;
  Victim victim(argv[1], std::atoi(argv[2]));
  for (int i = 0; i < 100; ++i) victim.post_and_poll();

  std::mt19937_64 random(std::strtoull(argv[3], nullptr, 10));
  const auto mappings = shared_mappings();
  if (mappings.empty()) return std::fprintf(stderr, "nothing is shared with the daemon\n"), 1;
  std::size_t words = 0;
  for (const Mapping& m : mappings) words += m.count;

  for (const int fault : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE}) std::signal(fault, on_fault);
  std::signal(SIGALRM, on_alarm);
  alarm(static_cast<unsigned>(std::atoi(argv[4]) / 1000 + 5));
  volatile bool post = true;
  if (sigsetjmp(stumbled, 1) != 0) post = false;

  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(std::atoi(argv[4]));
  std::uint64_t rounds = 0;
  for (; std::chrono::steady_clock::now() < end; ++rounds) {
    for (const Mapping& m : mappings) {
      // Now and then all of it, otherwise a few words, so that what is around them still works.
      if (rounds % 64 == 63)
        for (std::size_t i = 0; i < m.count; ++i) m.words[i] = word(random);
      else
        for (int i = 0; i < 8; ++i) m.words[random() % m.count] = word(random);
    }
    if (post) victim.post_and_poll();
  }
  std::printf("%zu mappings, %zu KiB, %" PRIu64 " rounds\n", mappings.size(), words / 128, rounds);
  // The library would take the memory it is to give back by what stands in it.
  std::fflush(stdout);
  std::_Exit(0);
}
