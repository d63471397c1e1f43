// SPDX-License-Identifier: Apache-2.0

// A queue pair connected to itself, and what few programs use: moderation of completion events and
// null regions.
//
// usage: loopback DEVICE GID-INDEX
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/system/programs.hpp"

namespace {

constexpr std::size_t kBytes = 20000;
constexpr int kMessages = 4;  // at most at once

struct Loopback {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq *send_cq = nullptr, *receive_cq = nullptr;
  ibv_mr* mr = nullptr;
  ibv_qp* qp = nullptr;
};

Loopback set_up(const char* device, int gid_index, char* memory) {
  Loopback l;
  l.context = open_device(device);
  ibv_gid gid{};
  expect(ibv_query_gid(l.context, 1, gid_index, &gid) == 0, "the GID");
  l.pd = ibv_alloc_pd(l.context);
  l.channel = ibv_create_comp_channel(l.context);
  l.send_cq = ibv_create_cq(l.context, kMessages, nullptr, nullptr, 0);
  l.receive_cq = ibv_create_cq(l.context, kMessages, nullptr, l.channel, 0);
  l.mr = ibv_reg_mr(l.pd, memory, 2 * kBytes, IBV_ACCESS_LOCAL_WRITE);
  expect(l.mr != nullptr && l.send_cq != nullptr && l.receive_cq != nullptr, "making the queues");
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = l.send_cq;
  init.recv_cq = l.receive_cq;
  init.cap = {kMessages, kMessages, 3, 3, 0};
  l.qp = ibv_create_qp(l.pd, &init);
  expect(l.qp != nullptr, "making the queue pair");
  bring_up(l.qp, l.qp->qp_num, gid, gid_index);
  return l;
}

void post(const Loopback& l, ibv_sge* from, int from_count, ibv_sge* to, int to_count) {
  ibv_recv_wr receive{4711, nullptr, to, to_count};
  ibv_recv_wr* bad_receive = nullptr;
  expect(ibv_post_recv(l.qp, &receive, &bad_receive) == 0, "posting a receive");
  post_send(l.qp, from, from_count);
}

void wait_for_event(const Loopback& l) {
  pollfd state{l.channel->fd, POLLIN, 0};
  expect(poll(&state, 1, static_cast<int>(kPatience) * 1000) == 1, "the event");
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  expect(ibv_get_cq_event(l.channel, &cq, &context) == 0 && cq == l.receive_cq, "whose event");
  ibv_ack_cq_events(cq, 1);
}

/// Whatever the terms, a program that sleeps until it is told is told.
void check_moderation(const Loopback& l) {
  ibv_device_attr_ex attr{};
  expect(ibv_query_device_ex(l.context, nullptr, &attr) == 0, "asking the device");
  const std::uint16_t most_count = attr.cq_mod_caps.max_cq_count;
  const std::uint16_t most_period = attr.cq_mod_caps.max_cq_period;
  expect(most_count > kMessages && most_period > 0, "how far it moderates");
  const ibv_moderate_cq terms[] = {
      {most_count, most_period}, {2, most_period}, {most_count, 100}, {most_count, 1}, {3, 50},
      {0, most_period},          {most_count, 0}};
  for (const ibv_moderate_cq& moderate : terms) {
    ibv_modify_cq_attr change{IBV_CQ_ATTR_MODERATE, moderate};
    expect(ibv_modify_cq(l.receive_cq, &change) == 0, "moderating");
    for (int messages = 1; messages <= kMessages; ++messages) {
      expect(ibv_req_notify_cq(l.receive_cq, 0) == 0, "asking for an event");
      for (int i = 0; i < messages; ++i) post(l, nullptr, 0, nullptr, 0);
      wait_for_event(l);
      for (int i = 0; i < messages; ++i) {
        wait_for(l.send_cq, "a send");
        wait_for(l.receive_cq, "a receive");
      }
    }
  }
}

/// Checks that a null region supplies zeros in the middle of a message, and discards data written
/// to it.
void check_null_region(const Loopback& l, char* memory) {
  constexpr std::uint32_t kPart = 1000;
  constexpr std::uint32_t kHole = 7777;
  ibv_mr* null = ibv_alloc_null_mr(l.pd);
  expect(null != nullptr, "a null region");
  const auto at = [&](std::size_t offset, std::uint32_t bytes) {
    return ibv_sge{reinterpret_cast<std::uintptr_t>(memory + offset), bytes, l.mr->lkey};
  };
  for (std::size_t i = 0; i < 2 * kBytes; ++i) memory[i] = static_cast<char>(i % 251 + 1);
  const char* const to = memory + kBytes;
  ibv_sge hole{0, kHole, null->lkey};

  ibv_sge with_hole[] = {at(0, kPart), hole, at(kPart, kPart)};
  ibv_sge whole = at(kBytes, 2 * kPart + kHole);
  post(l, with_hole, 3, &whole, 1);
  wait_for(l.send_cq, "a send of zeros");
  wait_for(l.receive_cq, "zeros");
  const char* const after = to + kPart + kHole;
  expect(std::memcmp(to, memory, kPart) == 0 && std::memcmp(after, memory + kPart, kPart) == 0 &&
             std::all_of(to + kPart, after, [](char byte) { return byte == 0; }),
         "what came with zeros");

  ibv_sge source = at(0, 2 * kPart + kHole);
  ibv_sge around[] = {at(kBytes, kPart), hole, at(kBytes + kPart, kPart)};
  post(l, &source, 1, around, 3);
  wait_for(l.send_cq, "a send");
  const ibv_wc wc = wait_for(l.receive_cq, "a receive that drops");
  expect(wc.byte_len == 2 * kPart + kHole, "how much came");
  expect(std::memcmp(to, memory, kPart) == 0 &&
             std::memcmp(to + kPart, memory + kPart + kHole, kPart) == 0,
         "what came around it");
  expect(ibv_dereg_mr(null) == 0, "ending the null region");
}

void take_down(const Loopback& l) {
  expect(ibv_destroy_qp(l.qp) == 0 && ibv_dereg_mr(l.mr) == 0 && ibv_destroy_cq(l.send_cq) == 0 &&
             ibv_destroy_cq(l.receive_cq) == 0 && ibv_destroy_comp_channel(l.channel) == 0 &&
             ibv_dealloc_pd(l.pd) == 0 && ibv_close_device(l.context) == 0,
         "taking it down");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: loopback DEVICE GID-INDEX\n"), 2;
  static char memory[2 * kBytes];
  const Loopback l = set_up(argv[1], std::atoi(argv[2]), memory);
  check_moderation(l);
  check_null_region(l, memory);
  take_down(l);
  return 0;
}
