// SPDX-License-Identifier: Apache-2.0

// Makes every call of verbs and rdma_cm while the process lacks descriptors or address space. A
// call works or fails for want of those, and everything works again as soon as they are back.
// Between "before" and "after", which are printed and answered by a line, nothing may be left in
// the daemon.
#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

#include "tests/system/memory/pair.hpp"

namespace {

constexpr std::size_t kBytes = 1 << 20;
// Rings that have segments of their own.
constexpr int kManyEntries = 200000;
constexpr std::uint32_t kManyRequests = 16000, kManyParts = 16;
constexpr int kLimit = 200;

const char* device = nullptr;
ibv_context* context = nullptr;
ibv_pd* pd = nullptr;
Pair pair{};
ibv_mr* region = nullptr;
ibv_comp_channel* channel = nullptr;
ibv_qp* datagrams = nullptr;
rdma_event_channel* events = nullptr;
rdma_event_channel* others = nullptr;
sockaddr_in address{};
char* memory = nullptr;
int file = -1;
char data[8192];  // shares its pages with other variables

/// The errno value of a call that returned null or not; `end` ends what was made.
template <class Object, class End>
int made(Object* object, End end) {
  if (object == nullptr) return errno;
  const int error = end(object);
  expect(error == 0, "an object cannot be destroyed");
  return 0;
}

int result(int returned) { return returned == 0 ? 0 : errno; }

int make_pd() { return made(ibv_alloc_pd(context), ibv_dealloc_pd); }

int reg(void* at, std::size_t bytes) {
  return made(ibv_reg_mr(pd, at, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
              ibv_dereg_mr);
}
int reg_pages() { return reg(memory, kBytes); }
int reg_fresh_pages() {
  void* fresh = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED) return errno;
  const int error = reg(fresh, kBytes);
  ::munmap(fresh, kBytes);
  return error;
}
int reg_data() { return reg(data + 100, 5000); }
int reg_again() {
  return ibv_rereg_mr(region, IBV_REREG_MR_CHANGE_TRANSLATION, pd, memory, kBytes, 0);
}
int make_null() { return made(ibv_alloc_null_mr(pd), ibv_dereg_mr); }
int make_window() { return made(ibv_alloc_mw(pd, IBV_MW_TYPE_2), ibv_dealloc_mw); }
int make_channel() { return made(ibv_create_comp_channel(context), ibv_destroy_comp_channel); }

ibv_cq* new_cq(int entries) { return ibv_create_cq(context, entries, nullptr, channel, 0); }
int make_cq() { return made(new_cq(8), ibv_destroy_cq); }
int make_large_cq() { return made(new_cq(kManyEntries), ibv_destroy_cq); }
int resize_cq() {
  return made(new_cq(8), [](ibv_cq* cq) {
    int error = ibv_resize_cq(cq, kManyEntries);
    if (ibv_destroy_cq(cq) != 0) return EBUSY;
    return error == EMFILE || error == ENOMEM ? 0 : error;
  });
}

ibv_srq* new_srq(std::uint32_t max_wr) {
  ibv_srq_init_attr init{};
  init.attr.max_wr = max_wr;
  init.attr.max_sge = kManyParts;
  return ibv_create_srq(pd, &init);
}
int make_srq() { return made(new_srq(8), ibv_destroy_srq); }
int make_large_srq() { return made(new_srq(kManyRequests), ibv_destroy_srq); }
int resize_srq() {
  return made(new_srq(8), [](ibv_srq* srq) {
    ibv_srq_attr attr{};
    attr.max_wr = kManyRequests;
    const int error = ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR);
    if (ibv_destroy_srq(srq) != 0) return EBUSY;
    return error == EMFILE || error == ENOMEM ? 0 : error;
  });
}
int query_srq() {
  return made(new_srq(8), [](ibv_srq* srq) {
    ibv_srq_attr attr{};
    return ibv_query_srq(srq, &attr) + ibv_destroy_srq(srq);
  });
}

int make_qp(std::uint32_t max_wr) {
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = init.recv_cq = pair.cq;
  init.cap = {max_wr, max_wr, 4, 4, 64};
  return made(ibv_create_qp(pd, &init), ibv_destroy_qp);
}
int make_small_qp() { return make_qp(4); }
int make_large_qp() { return make_qp(kManyRequests); }

int make_xrc_domain(int of) {
  ibv_xrcd_init_attr init{};
  init.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  init.fd = of;
  init.oflags = O_CREAT;
  return made(ibv_open_xrcd(context, &init), [](ibv_xrcd* domain) {
    ibv_srq_init_attr_ex srq{};
    srq.attr.max_wr = srq.attr.max_sge = 1;
    srq.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                    IBV_SRQ_INIT_ATTR_CQ;
    srq.srq_type = IBV_SRQT_XRC;
    srq.pd = pd;
    srq.xrcd = domain;
    srq.cq = pair.cq;
    const int error = made(ibv_create_srq_ex(context, &srq), ibv_destroy_srq);
    if (ibv_close_xrcd(domain) != 0) return EBUSY;
    return error == EMFILE || error == ENOMEM ? 0 : error;
  });
}
int make_own_domain() { return make_xrc_domain(-1); }
int make_domain_of_file() { return make_xrc_domain(file); }

ibv_gid gid{};
int make_address_handle() {
  ibv_ah_attr attr{};
  attr.is_global = attr.port_num = 1;
  attr.grh.dgid = gid;
  return made(ibv_create_ah(pd, &attr), ibv_destroy_ah);
}

int query_device() {
  ibv_device_attr attr{};
  return ibv_query_device(context, &attr);
}
int query_port() {
  ibv_port_attr attr{};
  return ibv_query_port(context, 1, &attr);
}
int query_qp() {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  return ibv_query_qp(pair.from, &attr, IBV_QP_STATE, &init);
}
int modify_qp() {
  ibv_qp_attr attr{};
  attr.min_rnr_timer = 12;
  return ibv_modify_qp(pair.from, &attr, IBV_QP_MIN_RNR_TIMER);
}
int moderate_cq() {
  ibv_modify_cq_attr attr{};
  attr.attr_mask = IBV_CQ_ATTR_MODERATE;
  return ibv_modify_cq(pair.cq, &attr);
}
int arm() { return ibv_req_notify_cq(pair.cq, 0); }
int join_group() {
  ibv_gid group{};
  group.raw[0] = 0xff;
  group.raw[1] = 0x0e;
  group.raw[15] = 1;
  const int error = ibv_attach_mcast(datagrams, &group, 0);
  return error != 0 ? error : ibv_detach_mcast(datagrams, &group, 0);
}
int move_data() {
  const ibv_sge from{reinterpret_cast<std::uintptr_t>(memory), 64, region->lkey};
  return write_to(pair, from, from.addr + 4096, region->rkey) == IBV_WC_SUCCESS ? 0 : EIO;
}

int open_another() {
  ibv_device** const list = ibv_get_device_list(nullptr);
  if (list == nullptr) return errno;
  int error = EMFILE;  // also where the library could read part of the device tree and lists none
  for (ibv_device** d = list; *d != nullptr; ++d)
    if (std::strcmp(ibv_get_device_name(*d), device) == 0)
      error = made(ibv_open_device(*d), ibv_close_device);
  ibv_free_device_list(list);
  return error;
}

int make_events() {
  return made(rdma_create_event_channel(), [](rdma_event_channel* made_events) {
    rdma_destroy_event_channel(made_events);
    return 0;
  });
}
/// An identifier of the first channel, on which `use` is called.
template <class Use>
int with_id(Use use) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(events, &id, nullptr, RDMA_PS_TCP) != 0) return errno;
  const int error = use(id);
  expect(rdma_destroy_id(id) == 0, "an identifier cannot be destroyed");
  return error;
}
int make_id() {
  return with_id([](rdma_cm_id*) { return 0; });
}
int bind_and_listen() {
  return with_id([](rdma_cm_id* id) {
    if (rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)) != 0) return errno;
    return result(rdma_listen(id, 4));
  });
}
int resolve() {
  return with_id([](rdma_cm_id* id) {
    sockaddr_in to = address;
    to.sin_port = htons(7);
    if (rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), 2000) != 0) return errno;
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(events, &event) != 0) return errno;
    const int error = event->event == RDMA_CM_EVENT_ADDR_RESOLVED ? 0 : EIO;
    rdma_ack_cm_event(event);
    if (error != 0) return error;
    ibv_qp_init_attr init{};
    init.qp_type = IBV_QPT_RC;
    init.cap.max_send_wr = init.cap.max_recv_wr = init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    if (rdma_create_qp(id, nullptr, &init) != 0) return errno;
    rdma_destroy_qp(id);
    return 0;
  });
}
int migrate() {
  return with_id([](rdma_cm_id* id) { return result(rdma_migrate_id(id, others)); });
}
int make_endpoint() {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP) != 0) return errno;
  return result(rdma_destroy_id(id));
}

constexpr struct {
  const char* name;
  int (*call)();
} kCalls[] = {
    {"alloc_pd", make_pd},
    {"reg_mr", reg_pages},
    {"reg_mr of memory that was never shared", reg_fresh_pages},
    {"reg_mr of parts of pages", reg_data},
    {"rereg_mr", reg_again},
    {"alloc_null_mr", make_null},
    {"alloc_mw", make_window},
    {"create_comp_channel", make_channel},
    {"create_cq", make_cq},
    {"create_cq, large", make_large_cq},
    {"resize_cq", resize_cq},
    {"create_srq", make_srq},
    {"create_srq, large", make_large_srq},
    {"modify_srq", resize_srq},
    {"query_srq", query_srq},
    {"create_qp", make_small_qp},
    {"create_qp, large", make_large_qp},
    {"open_xrcd", make_own_domain},
    {"open_xrcd of a file", make_domain_of_file},
    {"create_ah", make_address_handle},
    {"query_device", query_device},
    {"query_port", query_port},
    {"query_qp", query_qp},
    {"modify_qp", modify_qp},
    {"modify_cq", moderate_cq},
    {"req_notify_cq", arm},
    {"attach_mcast", join_group},
    {"a write", move_data},
    {"open_device", open_another},
    {"rdma_create_event_channel", make_events},
    {"rdma_create_id", make_id},
    {"rdma_listen", bind_and_listen},
    {"rdma_resolve_addr", resolve},
    {"rdma_migrate_id", migrate},
    {"rdma_create_id with a channel of its own", make_endpoint},
};

/// Everything, without a shortage.
void expect_all_work(const char* when) {
  for (const auto& [name, call] : kCalls) {
    errno = call();
    if (errno == 0) continue;
    std::fprintf(stderr, "%s: %s: %s\n", when, name, std::strerror(errno));
    std::exit(1);
  }
}

int failed = 0;  // calls that the present shortage made fail

void check(const char* lacking, int left, const char* name, int error) {
  if (error != 0) ++failed;
  const bool allowed = error == 0 || error == EMFILE || error == ENOMEM;
  if (!allowed)
    std::fprintf(stderr, "%s with %s (%d left): %s\n", name, lacking, left, std::strerror(error));
  for (int (*call)() : {make_pd, make_channel, make_large_cq, move_data}) {
    const int after = call();
    if (after == 0) continue;
    std::fprintf(stderr, "after %s with %s (%d left): %s\n", name, lacking, left,
                 std::strerror(after));
    std::exit(1);
  }
  if (!allowed) std::exit(1);
}

void lack_descriptors() {
  static int taken[kLimit];
  for (int left = 0; left <= 3; ++left) {
    for (const auto& [name, call] : kCalls) {
      int count = 0;
      while ((taken[count] = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0) ++count;
      for (int i = 0; i < left; ++i) ::close(taken[--count]);
      errno = 0;
      const int error = call();
      while (count > 0) ::close(taken[--count]);
      check("few descriptors", left, name, error);
    }
  }
  expect(failed > 10, "calls that needed a descriptor");
}

std::size_t address_space() {
  std::size_t pages = 0;
  std::FILE* status = std::fopen("/proc/self/statm", "r");
  expect(status != nullptr && std::fscanf(status, "%zu", &pages) == 1, "/proc/self/statm");
  std::fclose(status);
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

void lack_address_space() {
  failed = 0;
  for (const auto& [name, call] : kCalls) {
    rlimit limit{address_space() / 2, RLIM_INFINITY};  // also where a ring replaces another
    expect(::setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
    errno = 0;
    const int error = call();
    limit.rlim_cur = RLIM_INFINITY;
    expect(::setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
    check("no address space", 0, name, error);
  }
  expect(failed > 5, "calls that needed address space");
}

void say(const char* what) {
  std::puts(what);
  std::fflush(stdout);
  char line[16];
  expect(std::fgets(line, sizeof line, stdin) != nullptr, "an answer");
}

void set_up(int gid_index, const char* own_address) {
  context = open_device(device);
  pd = ibv_alloc_pd(context);
  channel = ibv_create_comp_channel(context);
  expect(pd != nullptr && channel != nullptr, "a protection domain and a channel");
  expect(ibv_query_gid(context, 1, gid_index, &gid) == 0, "the GID");
  pair = make_pair(pd, gid_index);
  memory = static_cast<char*>(
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  expect(memory != MAP_FAILED, "memory");
  region = ibv_reg_mr(pd, memory, kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  expect(region != nullptr, "a region");
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_UD;
  init.send_cq = init.recv_cq = pair.cq;
  init.cap.max_recv_wr = init.cap.max_recv_sge = 1;
  datagrams = ibv_create_qp(pd, &init);
  expect(datagrams != nullptr, "a queue pair for datagrams");
  bring_up_datagrams(datagrams, 1);
  events = rdma_create_event_channel();
  others = rdma_create_event_channel();
  expect(events != nullptr && others != nullptr, "event channels");
  address.sin_family = AF_INET;
  expect(::inet_pton(AF_INET, own_address, &address.sin_addr) == 1, "an address");
  file = ::memfd_create("domain", MFD_CLOEXEC);
  expect(file >= 0, "a file");
}

}  // namespace

int main(int, char** argv) {
  device = argv[1];
  const rlimit limit{kLimit, kLimit};
  expect(::setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
  set_up(std::atoi(argv[2]), argv[3]);
  expect_all_work("at first");
  expect_all_work("again");
  say("before");
  lack_descriptors();
  expect_all_work("with descriptors back");
  lack_address_space();
  expect_all_work("with address space back");
  say("after");
}
