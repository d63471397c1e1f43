// SPDX-License-Identifier: Apache-2.0

// A program that gives up its rights, or closes descriptors that it does not know, after it has
// opened the device: confined DEVICE GID MODE.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "tests/system/memory/pair.hpp"

namespace {

constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
constexpr std::size_t kBytes = 1 << 16;

/// As sandboxes do that let a program open nothing more.
void forbid_opening() {
  std::array<sock_filter, 4> filter = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),  // the number of the call
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  expect(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
  expect(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "a filter");
}

void confine(const std::string& mode) {
  if (mode == "filter") forbid_opening();
  if (mode == "undumpable") expect(::prctl(PR_SET_DUMPABLE, 0) == 0, "undumpable");
  if (mode == "user") expect(::setgid(65534) == 0 && ::setuid(65534) == 0, "another user");
  if (mode == "root") {
    char folder[] = "/tmp/confined-XXXXXX";
    expect(::mkdtemp(folder) != nullptr, "a folder");
    expect(::chroot(folder) == 0 && ::chdir("/") == 0, "another root");
  }
}

char data[8192];  // shares its pages with other variables

/// Registers pages, parts of pages and the stack, and moves data there.
void use(ibv_pd* pd, const Pair& pair) {
  char stack[600] = {};
  void* const pages =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  expect(pages != MAP_FAILED, "memory");
  ibv_mr* const from = ibv_reg_mr(pd, pages, kBytes, kAccess);
  expect(from != nullptr, "pages are registered");
  std::memset(pages, 0x5a, kBytes);
  const struct {
    char* at;
    std::size_t bytes;
  } kinds[] = {
      {data + 50, 6000}, {stack, sizeof stack}, {static_cast<char*>(std::malloc(900)), 900}};
  for (const auto& [at, bytes] : kinds) {
    ibv_mr* const to = ibv_reg_mr(pd, at, bytes, kAccess);
    expect(to != nullptr, "parts of pages are registered");
    const ibv_sge entry{reinterpret_cast<std::uintptr_t>(pages), static_cast<std::uint32_t>(bytes),
                        from->lkey};
    expect(write_to(pair, entry, reinterpret_cast<std::uintptr_t>(at), to->rkey) == IBV_WC_SUCCESS,
           "a write");
    expect(std::memcmp(at, pages, bytes) == 0, "what was written");
    expect(ibv_dereg_mr(to) == 0, "deregistered");
  }
}

/// Verbs fail at once, and neither use nor close the program's own files that have the numbers of
/// the library's by now.
void close_all(ibv_context* context, ibv_pd* pd, const Pair& pair, rdma_event_channel* events) {
  ibv_comp_channel* const channel = ibv_create_comp_channel(context);
  ibv_cq* const cq = ibv_create_cq(context, 4, nullptr, channel, 0);
  rdma_cm_id* id = nullptr;
  expect(channel != nullptr && cq != nullptr, "a completion channel");
  expect(rdma_create_id(events, &id, nullptr, RDMA_PS_TCP) == 0, "an identifier");
  constexpr int kFirst = 3, kLast = 100;
  expect(::close_range(kFirst, kLast, 0) == 0, "close_range");
  std::vector<pollfd> own;
  std::vector<int> counters;
  for (;;) {
    int ends[2];
    expect(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0, "sockets");
    const int counter = ::eventfd(0, EFD_NONBLOCK);
    expect(counter >= 0, "an eventfd");
    own.push_back({ends[0], POLLIN, 0});
    own.push_back({ends[1], POLLIN, 0});
    counters.push_back(counter);
    if (counter > kLast) break;
  }

  ::alarm(30);  // for calls that wait
  errno = 0;
  expect(ibv_alloc_pd(context) == nullptr && errno != 0, "alloc_pd fails");
  ibv_cq* event_cq = nullptr;
  void* event_context = nullptr;
  errno = 0;
  expect(ibv_get_cq_event(channel, &event_cq, &event_context) != 0 && errno == EBADF,
         "get_cq_event fails");
  ibv_async_event event;
  errno = 0;
  expect(ibv_get_async_event(context, &event) != 0 && errno == EBADF, "get_async_event fails");
  expect(ibv_create_comp_channel(context) == nullptr, "create_comp_channel fails");
  expect(ibv_reg_mr(pd, data, sizeof data, kAccess) == nullptr, "reg_mr fails");
  ibv_port_attr port;
  expect(ibv_query_port(context, 1, &port) != 0, "query_port fails");
  ibv_wc wc;
  int polled = 0;
  while (polled == 0) polled = ibv_poll_cq(cq, 1, &wc);
  expect(polled < 0, "poll_cq fails");
  errno = 0;
  expect(rdma_listen(id, 1) != 0 && errno == EBADF, "rdma_listen fails");
  rdma_cm_event* cm_event = nullptr;
  errno = 0;
  expect(rdma_get_cm_event(events, &cm_event) != 0 && errno == EBADF, "rdma_get_cm_event fails");
  rdma_destroy_event_channel(events);
  expect(ibv_destroy_cq(cq) == 0 && ibv_destroy_comp_channel(channel) == 0, "destroyed");
  expect(ibv_destroy_qp(pair.from) == 0 && ibv_destroy_qp(pair.to) == 0, "destroyed");
  expect(ibv_destroy_cq(pair.cq) == 0 && ibv_dealloc_pd(pd) == 0, "destroyed");
  expect(ibv_close_device(context) == 0, "closed");

  expect(::poll(own.data(), own.size(), 0) == 0,
         "the program's sockets are closed or were written");
  for (const int counter : counters) {
    eventfd_t value = 0;
    expect(::eventfd_read(counter, &value) != 0 && errno == EAGAIN, "an eventfd was written");
  }
}

}  // namespace

int main(int, char** argv) {
  const std::string mode = argv[3];
  rdma_event_channel* const events = rdma_create_event_channel();
  expect(events != nullptr, "an event channel");
  ibv_context* const context = open_device(argv[1]);
  ibv_pd* const pd = ibv_alloc_pd(context);
  expect(pd != nullptr, "a protection domain");
  const Pair pair = make_pair(pd, std::atoi(argv[2]));
  if (mode == "closed") {
    close_all(context, pd, pair, events);
    return 0;
  }
  confine(mode);
  use(pd, pair);
}
