// SPDX-License-Identifier: Apache-2.0

#include "bench/isolation/attacks.hpp"

#include <arpa/inet.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include "bench/verbs/queue_pair.hpp"

namespace softhca::bench {
namespace {

constexpr std::uint32_t kQKey = 0x1234;

ibv_cq* create_cq(const Device& device, std::uint32_t entries, ibv_comp_channel* channel) {
  ibv_cq* const cq =
      ibv_create_cq(device.context(), static_cast<int>(entries), nullptr, channel, 0);
  if (!cq) die("completion queue");
  return cq;
}

ibv_comp_channel* create_channel(const Device& device) {
  ibv_comp_channel* const channel = ibv_create_comp_channel(device.context());
  if (!channel) die("completion channel");
  return channel;
}

/// Creates a queue pair in RTS, with room for `sends` inline datagrams of 64 bytes.
ibv_qp* create_ud(const Device& device, ibv_cq* cq, std::uint32_t sends) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_UD;
  init.cap = {sends, 1, 1, 1, 64};
  ibv_qp* const qp = ibv_create_qp(device.pd(), &init);
  if (!qp) die("queue pair for datagrams");
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qkey = kQKey;
  check(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
        "queue pair to INIT");
  attr.qp_state = IBV_QPS_RTR;
  check(ibv_modify_qp(qp, &attr, IBV_QP_STATE), "queue pair to RTR");
  attr.qp_state = IBV_QPS_RTS;
  check(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "queue pair to RTS");
  return qp;
}

/// Creates an address handle for the IPv4 address of the device with its last 12 bits replaced.
ibv_ah* address_of(const Device& device, std::uint32_t host) {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.dgid = device.gid();
  attr.grh.sgid_index = device.gid_index();
  attr.grh.hop_limit = 64;
  std::uint32_t address = 0;
  std::memcpy(&address, attr.grh.dgid.raw + 12, sizeof address);
  address = htonl((ntohl(address) & ~0xfffu) | host);
  std::memcpy(attr.grh.dgid.raw + 12, &address, sizeof address);
  ibv_ah* const ah = ibv_create_ah(device.pd(), &attr);
  if (!ah) die("address handle");
  return ah;
}

/// Waits for the overflow event of `cq`, and ignores the events of its queue pairs.
void await_failure_of(const Device& device, const ibv_cq* cq) {
  for (;;) {
    ibv_async_event event{};
    if (ibv_get_async_event(device.context(), &event)) die("get_async_event");
    const bool it_is = event.event_type == IBV_EVENT_CQ_ERR && event.element.cq == cq;
    ibv_ack_async_event(&event);
    if (it_is) return;
  }
}

/// Maps pages that are read and never written. All of them are the kernel's zero page, so they need
/// page tables, but no memory.
void* map_zero_pages(std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  // A huge page would be one page table entry instead of 512. Kernels without huge pages refuse
  // this advice.
  if (pages == MAP_FAILED || (madvise(pages, bytes, MADV_NOHUGEPAGE) && errno != EINVAL))
    die("zero pages");
  const volatile char* const at = static_cast<char*>(pages);
  for (std::size_t i = 0; i < bytes; i += kPage) static_cast<void>(at[i]);
  return pages;
}

}  // namespace

void say_running() {
  std::puts("running");
  std::fflush(stdout);
}

void overrun(const Device& device, const Demand& demand) {
  Buffer buffer(2 * demand.size);
  ibv_mr* const mr = ibv_reg_mr(device.pd(), buffer.data(), buffer.size(),
                                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (!mr) die("memory region");
  const auto from = reinterpret_cast<std::uint64_t>(buffer.data());
  ibv_sge sge{from, demand.size, mr->lkey};
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma = {from + demand.size, mr->rkey};
  say_running();
  for (;;) {
    std::vector<ibv_qp*> pairs;
    ibv_cq* const cq = create_cq(device, 1, nullptr);
    for (std::uint32_t i = 0; i < demand.queue_pairs; ++i) {
      ibv_qp* const sender = create_rc(device, cq, demand.depth, 1);
      ibv_qp* const receiver = create_rc(device, cq, 1, 1);
      connect_rc(receiver, device, {sender->qp_num, 1, device.gid()}, 1, IBV_MTU_1024);
      connect_rc(sender, device, {receiver->qp_num, 1, device.gid()}, 1, IBV_MTU_1024);
      pairs.insert(pairs.end(), {sender, receiver});
    }
    for (std::uint32_t i = 0; i < demand.queue_pairs; ++i)
      for (std::uint32_t post = 0; post < demand.depth; ++post) {
        ibv_send_wr* bad = nullptr;
        // The provider may refuse the post once the queue pair has failed.
        if (ibv_post_send(pairs[2 * i], &wr, &bad)) break;
      }
    await_failure_of(device, cq);
    for (ibv_qp* qp : pairs) ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
  }
}

void ask_for_neighbours(const Device& device, const Demand& demand) {
  ibv_comp_channel* const channel = create_channel(device);
  ibv_cq* const cq = create_cq(device, demand.queue_pairs * demand.depth, channel);
  std::vector<ibv_ah*> nobody;
  for (std::uint32_t host = 256; host < 4096; ++host) nobody.push_back(address_of(device, host));
  std::vector<ibv_qp*> pairs;
  for (std::uint32_t i = 0; i < demand.queue_pairs; ++i)
    pairs.push_back(create_ud(device, cq, demand.depth));
  std::size_t next = 0;
  const auto post = [&](std::uint32_t qp) {
    std::array<char, 64> bytes{};
    ibv_sge sge{reinterpret_cast<std::uint64_t>(bytes.data()), bytes.size(), 0};
    ibv_send_wr wr{};
    wr.wr_id = qp;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
    wr.wr.ud = {nobody[next++ % nobody.size()], 1, kQKey};
    ibv_send_wr* bad = nullptr;
    check(ibv_post_send(pairs[qp], &wr, &bad), "post_send");
  };
  check(ibv_req_notify_cq(cq, 0), "req_notify_cq");
  for (std::uint32_t qp = 0; qp < demand.queue_pairs; ++qp)
    for (std::uint32_t i = 0; i < demand.depth; ++i) post(qp);
  say_running();
  for (;;) {
    std::array<ibv_wc, 32> completions;
    const int n = ibv_poll_cq(cq, completions.size(), completions.data());
    if (n < 0) die("poll_cq");
    if (n == 0) await_event(channel);
    for (int i = 0; i < n; ++i)
      post(static_cast<std::uint32_t>(completions[static_cast<std::size_t>(i)].wr_id));
  }
}

void lock_memory(const Device& device, const Demand& demand) {
  constexpr std::size_t kBytes = std::size_t{4} << 30;
  Loop loop(device, demand, IBV_ACCESS_ON_DEMAND);
  void* const pages = map_zero_pages(kBytes);
  std::thread([pages] {
    for (;;)
      for (const int protection : {PROT_READ, PROT_READ | PROT_WRITE})
        if (mprotect(pages, kBytes, protection)) die("mprotect");
  }).detach();
  say_running();
  loop.flood();
}

void write_unshared(const Device& device, const Demand& demand) {
  Loop loop(device, demand, IBV_ACCESS_ON_DEMAND);
  say_running();
  loop.flood();
}

}  // namespace softhca::bench
