// SPDX-License-Identifier: Apache-2.0

// What programs see of memory registration. usage: memory DEVICE ...
//
// twice MEGABYTES   registers this much, and the same again.
// idle PAGES        registers and deregisters this many separate pages, and makes queues.
//                   Stays until its standard input ends.
// apart PAGES       registers this many separate pages, all at once.
// advice PAGES      does to registered memory what programs do to memory.
// sessions GID      registers memory in two sessions and uses it in both.
// stack BYTES       registers this much of a stack, which must be refused.
// small-stack GID   uses verbs in a thread with a stack of 16 KiB.
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/system/programs.hpp"

namespace {

constexpr std::size_t kPage = 4096;

ibv_pd* domain_of(const char* device) {
  ibv_pd* pd = ibv_alloc_pd(open_device(device));
  expect(pd != nullptr, "a protection domain");
  return pd;
}

char* map_memory(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  expect(memory != MAP_FAILED, "mmap");
  return static_cast<char*>(memory);
}

ibv_mr* register_memory(ibv_pd* pd, char* memory, std::size_t bytes) {
  ibv_mr* mr = ibv_reg_mr(pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE);
  expect(mr != nullptr, "ibv_reg_mr");
  return mr;
}

void expect_content(const char* memory, std::size_t bytes, char value) {
  for (std::size_t i = 0; i < bytes; i += kPage)
    expect(memory[i] == value, "the content of registered memory");
}

void register_twice(const char* device, std::size_t bytes) {
  ibv_pd* pd = domain_of(device);
  char* memory = map_memory(bytes);
  std::memset(memory, 1, bytes);
  // Nothing of this is kept for a registration to come: the second one shares the memory anew.
  for (int round = 0; round < 2; ++round) {
    ibv_mr* mr = register_memory(pd, memory, bytes);
    expect_content(memory, bytes, 1);
    expect(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
  }
}

std::vector<ibv_mr*> register_apart(ibv_pd* pd, char* memory, std::size_t pages) {
  std::vector<ibv_mr*> regions;
  for (std::size_t i = 0; i < pages; ++i) {
    memory[2 * i * kPage] = static_cast<char>(i);
    regions.push_back(register_memory(pd, memory + 2 * i * kPage, kPage));
  }
  for (std::size_t i = 0; i < pages; ++i)
    expect(memory[2 * i * kPage] == static_cast<char>(i), "the content of registered memory");
  return regions;
}

void deregister(const std::vector<ibv_mr*>& regions) {
  for (ibv_mr* mr : regions) expect(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
}

void make_queues(ibv_context* context, ibv_pd* pd, int entries) {
  ibv_cq* cq = ibv_create_cq(context, entries, nullptr, nullptr, 0);
  expect(cq != nullptr, "ibv_create_cq");
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = init.recv_cq = cq;
  init.cap = {8, 8, 1, 1, 0};
  expect(ibv_create_qp(pd, &init) != nullptr, "ibv_create_qp");
}

void leave_idle(const char* device, std::size_t pages) {
  ibv_pd* pd = domain_of(device);
  char* memory = map_memory(2 * pages * kPage);
  deregister(register_apart(pd, memory, pages));
  make_queues(pd->context, pd, 16);
  make_queues(pd->context, pd, 60000);  // of segments of their own
  make_queues(open_device(device), pd, 16);
  // Memory that was given up meanwhile can be registered again.
  deregister(register_apart(pd, memory, pages));
  std::puts("idle");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  std::vector<ibv_mr*> regions = register_apart(pd, memory, pages);
  // The process has mappings left for all that it does besides.
  char* more = map_memory(400 * kPage);
  for (std::size_t i = 0; i < 400; i += 2)
    expect(::mprotect(more + i * kPage, kPage, PROT_READ) == 0, "mprotect");
  std::thread([] {}).join();
  memory[0] = 1;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(memory[0] == 1 ? 0 : 1);
  int status = 0;
  expect(::waitpid(child, &status, 0) == child && status == 0, "a child");
  deregister(std::move(regions));
}

/// Threads of coroutine libraries have stacks of 16 KiB.
void run_on_small_stack(void (*work)()) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  expect(pthread_attr_setstacksize(&attributes, 16 << 10) == 0, "a stack of 16 KiB");
  pthread_t thread{};
  const auto run = [](void* given) -> void* {
    reinterpret_cast<void (*)()>(given)();
    return nullptr;
  };
  expect(pthread_create(&thread, &attributes, run, reinterpret_cast<void*>(work)) == 0, "a thread");
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

void register_many(const char* device, std::size_t pages) {
  ibv_pd* pd = domain_of(device);
  char* memory = map_memory(2 * pages * kPage);
  deregister(register_apart(pd, memory, pages));
}

bool child_finds(const char* memory, std::size_t bytes, char value) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (std::size_t i = 0; i < bytes; ++i)
      if (memory[i] != value) ::_exit(1);
    ::_exit(0);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// REQUIRES: holds ones.
void give_advice(char* memory, std::size_t bytes) {
  expect(::madvise(memory, bytes, MADV_WIPEONFORK) == 0, "MADV_WIPEONFORK");
  expect(child_finds(memory, bytes, 0), "what children find of memory that is wiped");
  expect_content(memory, bytes, 1);
  expect(::madvise(memory, bytes, MADV_KEEPONFORK) == 0, "MADV_KEEPONFORK");
  expect(child_finds(memory, bytes, 1), "what children find of memory that is kept");
  expect(::madvise(memory, bytes, MADV_FREE) == 0, "MADV_FREE");
  std::memset(memory, 2, bytes);
  expect_content(memory, bytes, 2);
  expect(::madvise(memory, bytes, MADV_REMOVE) != 0 && errno == EINVAL, "MADV_REMOVE");
  expect(::mprotect(memory, bytes, PROT_NONE) == 0, "mprotect");
  expect(::mprotect(memory, bytes, PROT_READ | PROT_WRITE) == 0, "mprotect");
  expect_content(memory, bytes, 2);
  expect(::mlock(memory, bytes) == 0 && ::munlock(memory, bytes) == 0, "mlock");
  expect(::posix_madvise(memory, bytes, POSIX_MADV_DONTNEED) == 0, "posix_madvise");
  expect_content(memory, bytes, 2);
  expect(::madvise(memory, bytes, MADV_DONTNEED) == 0, "MADV_DONTNEED");
  expect_content(memory, bytes, 0);
}

void advise(const char* device, std::size_t pages) {
  ibv_pd* pd = domain_of(device);
  const std::size_t bytes = pages * kPage;
  char* memory = map_memory(bytes);
  for (int round = 0; round < 2; ++round) {
    std::memset(memory, 1, bytes);
    ibv_mr* mr = register_memory(pd, memory + kPage, bytes - 2 * kPage);
    give_advice(memory, bytes);
    expect(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
    std::memset(memory, 1, bytes);
    give_advice(memory, bytes);
  }
  std::memset(memory, 3, bytes);
  void* grown = ::mremap(memory, bytes, 3 * bytes, MREMAP_MAYMOVE);
  expect(grown != MAP_FAILED, "mremap");
  expect_content(static_cast<char*>(grown), bytes, 3);
  expect_content(static_cast<char*>(grown) + bytes, 2 * bytes, 0);
}

/// A session with a queue pair that is connected to itself, and a region.
struct Opened {
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_mr* mr = nullptr;
};

Opened open_with_region(const char* device, int gid_index, char* memory, std::size_t bytes) {
  Opened o;
  o.pd = domain_of(device);
  ibv_gid gid{};
  expect(ibv_query_gid(o.pd->context, 1, gid_index, &gid) == 0, "the GID");
  o.cq = ibv_create_cq(o.pd->context, 16, nullptr, nullptr, 0);
  expect(o.cq != nullptr, "ibv_create_cq");
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = init.recv_cq = o.cq;
  init.cap = {8, 8, 1, 1, 0};
  o.qp = ibv_create_qp(o.pd, &init);
  expect(o.qp != nullptr, "ibv_create_qp");
  bring_up(o.qp, o.qp->qp_num, gid, gid_index);
  o.mr = ibv_reg_mr(o.pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  expect(o.mr != nullptr, "ibv_reg_mr");
  return o;
}

void close(const Opened& o) {
  ibv_context* const context = o.pd->context;
  expect(ibv_destroy_qp(o.qp) == 0 && ibv_destroy_cq(o.cq) == 0 && ibv_dereg_mr(o.mr) == 0 &&
             ibv_dealloc_pd(o.pd) == 0 && ibv_close_device(context) == 0,
         "closing a session");
}

/// The adapter copies bytes of the region to another place in it.
void copy(const Opened& o, const char* from, char* to, std::size_t bytes) {
  const auto address = [](const char* at) { return reinterpret_cast<std::uintptr_t>(at); };
  ibv_sge entry{address(from), static_cast<std::uint32_t>(bytes), o.mr->lkey};
  ibv_send_wr wr{}, *bad = nullptr;
  wr.sg_list = &entry;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = address(to);
  wr.wr.rdma.rkey = o.mr->rkey;
  expect(ibv_post_send(o.qp, &wr, &bad) == 0, "posting a write");
  wait_for(o.cq, "an RDMA write");
}

/// One allocation, which begins and ends within pages.
void use_in_two_sessions(const char* device, int gid_index) {
  constexpr std::size_t kPart = 100000;
  char* memory = static_cast<char*>(std::malloc(3 * kPart));
  const auto part = [&](std::size_t i) { return memory + i * kPart; };
  const auto expect_parts = [&](const char* values) {
    for (std::size_t i = 0; i < 3 * kPart; ++i)
      expect(memory[i] == values[i / kPart], "what the sessions made of the memory");
  };
  std::memset(memory, 'a', 3 * kPart);
  const Opened first = open_with_region(device, gid_index, memory, 3 * kPart);
  const Opened second = open_with_region(device, gid_index, memory, 3 * kPart);
  std::memset(part(0), 'b', kPart);
  copy(first, part(0), part(1), kPart);
  copy(second, part(1), part(2), kPart);
  expect_parts("bbb");
  close(first);
  std::memset(part(0), 'c', kPart);
  copy(second, part(0), part(1), kPart);
  expect_parts("ccb");
  const Opened third = open_with_region(device, gid_index, memory, 3 * kPart);
  std::memset(part(2), 'd', kPart);
  copy(third, part(2), part(1), kPart);
  copy(second, part(1), part(0), kPart);
  expect_parts("ddd");
  close(second);
  close(third);
  memory = static_cast<char*>(std::realloc(memory, 30 * kPart));
  std::memset(part(3), 'd', 27 * kPart);
  for (std::size_t i = 0; i < 30 * kPart; ++i) expect(memory[i] == 'd', "memory that has grown");
  std::free(memory);
}

/// Whole pages, and a block of the heap.
void use_verbs(const char* device, int gid_index) {
  constexpr std::size_t kBytes = 1 << 20;
  char* memory = map_memory(kBytes);
  const Opened opened = open_with_region(device, gid_index, memory, kBytes);
  copy(opened, memory, memory + kBytes / 2, kBytes / 2);
  char* block = static_cast<char*>(std::malloc(1000));
  ibv_mr* mr = register_memory(opened.pd, block, 1000);
  expect(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, opened.pd, memory, kPage, 0) == 0,
         "ibv_rereg_mr");
  expect(ibv_resize_cq(opened.cq, 200) == 0, "ibv_resize_cq");
  ibv_device_attr device_attributes{};
  ibv_port_attr port{};
  ibv_qp_attr qp{};
  ibv_qp_init_attr init{};
  expect(ibv_query_device(opened.pd->context, &device_attributes) == 0 &&
             ibv_query_port(opened.pd->context, 1, &port) == 0 &&
             ibv_query_qp(opened.qp, &qp, IBV_QP_STATE, &init) == 0,
         "queries");
  expect(ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
  close(opened);
}

void expect_refusal(const char* device, std::size_t bytes) {
  ibv_pd* pd = domain_of(device);
  char stack[65536] = {};
  expect(bytes <= sizeof stack, "arguments");
  expect(ibv_reg_mr(pd, stack, bytes, IBV_ACCESS_LOCAL_WRITE) == nullptr && errno == EOPNOTSUPP,
         "that a stack is refused");
}

}  // namespace

int main(int argc, char** argv) {
  expect(argc == 4, "arguments");
  const std::string_view what = argv[2];
  const auto number = static_cast<std::size_t>(std::atol(argv[3]));
  if (what == "twice") register_twice(argv[1], number << 20);
  if (what == "idle") leave_idle(argv[1], number);
  if (what == "apart") register_many(argv[1], number);
  if (what == "advice") advise(argv[1], number);
  if (what == "sessions") use_in_two_sessions(argv[1], static_cast<int>(number));
  if (what == "stack") expect_refusal(argv[1], number);
  if (what == "small-stack") {
    static const char* device = argv[1];
    static const int gid_index = static_cast<int>(number);
    run_on_small_stack([] { use_verbs(device, gid_index); });
  }
}
