// SPDX-License-Identifier: Apache-2.0

// One process of a multicast group of datagrams. A member attaches a queue pair and ends when it
// has got kWanted datagrams; an outsider does with another Q_Key, and must get none; a sender
// sends, each time to all of them. Outsiders and senders end when there is FOLDER/done. Members and
// outsiders make FOLDER/ready-PID when datagrams may come.
//
// usage: multicast-group member|outsider|sender DEVICE GID-INDEX GROUP FOLDER
#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>

#include "tests/system/programs.hpp"

namespace {

constexpr unsigned kWanted = 20;
constexpr std::uint32_t kMessage = 500;
constexpr std::uint32_t kGrh = 40;
constexpr std::uint32_t kSlot = 1024;
constexpr unsigned kSlots = 32;
constexpr std::uint32_t kQkey = 0x1b2c3d4;
constexpr std::uint32_t kMulticastQpn = 0xffffff;

alignas(4096) unsigned char memory[kSlots * kSlot];

ibv_gid group_of(const char* text) {
  ibv_gid gid{};
  if (inet_pton(AF_INET6, text, gid.raw) == 1) return gid;
  gid.raw[10] = gid.raw[11] = 0xff;
  expect(inet_pton(AF_INET, text, gid.raw + 12) == 1, text);
  return gid;
}

struct Process {
  Process(const char* device, std::uint32_t qkey) : context(open_device(device)) {
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 2 * kSlots, nullptr, nullptr, 0);
    mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    expect(pd != nullptr && cq != nullptr && mr != nullptr, "making the queues");
    qp = make_qp(IBV_QPT_UD);
    bring_up_datagrams(qp, qkey);
  }
  ~Process() {
    expect(ibv_destroy_qp(qp) == 0 && ibv_dereg_mr(mr) == 0 && ibv_destroy_cq(cq) == 0 &&
               ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0,
           "ending it all");
  }

  ibv_qp* make_qp(ibv_qp_type type) {
    ibv_qp_init_attr init{};
    init.qp_type = type;
    init.send_cq = init.recv_cq = cq;
    init.cap = {4, kSlots, 1, 1, 0};
    ibv_qp* made = ibv_create_qp(pd, &init);
    expect(made != nullptr, "making a queue pair");
    return made;
  }
  void receive(std::uint64_t slot) {
    ibv_sge to{reinterpret_cast<std::uintptr_t>(memory + slot * kSlot), kSlot, mr->lkey};
    ibv_recv_wr wr{slot, nullptr, &to, 1};
    ibv_recv_wr* bad = nullptr;
    expect(ibv_post_recv(qp, &wr, &bad) == 0, "posting a receive");
  }

  ibv_context* context;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  ibv_qp* qp = nullptr;
};

void attach(Process& p, const ibv_gid& group, const char* folder) {
  ibv_device_attr limits{};
  expect(ibv_query_device(p.context, &limits) == 0 && limits.max_mcast_grp > 0 &&
             limits.max_mcast_qp_attach > 0 && limits.max_total_mcast_qp_attach > 0,
         "the limits of multicast");
  ibv_gid host{};
  expect(ibv_query_gid(p.context, 1, 0, &host) == 0, "a GID");
  expect(ibv_attach_mcast(p.qp, &host, 0) == EINVAL, "attaching to what is not a group");
  ibv_qp* connected = p.make_qp(IBV_QPT_RC);
  expect(ibv_attach_mcast(connected, &group, 0) == EINVAL, "attaching a connected queue pair");
  expect(ibv_destroy_qp(connected) == 0, "ending a queue pair");
  expect(ibv_detach_mcast(p.qp, &group, 0) == EINVAL, "detaching what is not attached");
  for (unsigned i = 0; i < kSlots; ++i) p.receive(i);
  for (int i = 0; i < 2; ++i) expect(ibv_attach_mcast(p.qp, &group, 0) == 0, "attaching");
  expect(ibv_destroy_qp(p.qp) == EBUSY, "destroying a member");
  const std::string ready = std::string(folder) + "/ready-" + std::to_string(getpid());
  expect(close(open(ready.c_str(), O_CREAT | O_WRONLY, 0600)) == 0, "being ready");
}

void check(const ibv_wc& wc, const ibv_gid& group) {
  expect(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV, "a receive");
  expect(wc.byte_len == kGrh + kMessage && (wc.wc_flags & IBV_WC_GRH) != 0, "what it says");
  const unsigned char* at = memory + wc.wr_id * kSlot;
  const bool ipv4 = group.raw[0] == 0;
  // The destination ends the routing header.
  expect(std::memcmp(at + (ipv4 ? 36 : 24), group.raw + (ipv4 ? 12 : 0), ipv4 ? 4 : 16) == 0,
         "the group in the routing header");
  for (std::uint32_t i = 0; i < kMessage; ++i)
    expect(at[kGrh + i] == static_cast<unsigned char>(i * 7), "what came");
}

bool is_over(const char* folder, std::time_t end) {
  expect(std::time(nullptr) < end, "the test did not end in time");
  return access((std::string(folder) + "/done").c_str(), F_OK) == 0;
}

void send(Process& p, int gid_index, const ibv_gid& group, const char* folder, std::time_t end) {
  ibv_ah_attr path{};
  path.is_global = 1;
  path.port_num = 1;
  path.grh.dgid = group;
  path.grh.sgid_index = static_cast<std::uint8_t>(gid_index);
  path.grh.hop_limit = 1;
  ibv_ah* ah = ibv_create_ah(p.pd, &path);
  expect(ah != nullptr, "an address handle of the group");
  for (std::uint32_t i = 0; i < kMessage; ++i) memory[i] = static_cast<unsigned char>(i * 7);
  while (!is_over(folder, end)) {
    ibv_sge from{reinterpret_cast<std::uintptr_t>(memory), kMessage, p.mr->lkey};
    ibv_send_wr wr{};
    wr.wr.ud = {ah, kMulticastQpn, kQkey};
    post_send(p.qp, &from, 1, wr);
    ibv_wc wc{};
    while (ibv_poll_cq(p.cq, 1, &wc) == 0) is_over(folder, end);
    expect(wc.status == IBV_WC_SUCCESS, "the send");
    usleep(1000);
  }
  expect(ibv_destroy_ah(ah) == 0, "ending the address handle");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6)
    return std::fprintf(stderr, "usage: multicast-group ROLE DEVICE GID-INDEX GROUP FOLDER\n"), 2;
  const std::string role = argv[1];
  const ibv_gid group = group_of(argv[4]);
  const char* const folder = argv[5];
  const std::time_t end = std::time(nullptr) + kPatience;
  Process p(argv[2], role == "outsider" ? kQkey + 1 : kQkey);
  if (role == "sender") {
    send(p, std::atoi(argv[3]), group, folder, end);
    return 0;
  }
  attach(p, group, folder);
  ibv_wc wc{};
  if (role == "member") {
    for (unsigned got = 0; got < kWanted;) {
      expect(std::time(nullptr) < end, "too few datagrams");
      if (ibv_poll_cq(p.cq, 1, &wc) == 0) continue;
      check(wc, group);
      p.receive(wc.wr_id);
      ++got;
    }
  } else {
    while (!is_over(folder, end)) usleep(10000);
    expect(ibv_poll_cq(p.cq, 1, &wc) == 0, "a datagram with another Q_Key");
  }
  expect(ibv_detach_mcast(p.qp, &group, 0) == 0, "detaching");
  return 0;
}
