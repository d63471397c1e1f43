// SPDX-License-Identifier: Apache-2.0

// A program of a tenant that brings down the adapter again and again, by a message or by a request
// (crash_on_text.cpp).
//
// usage: culprit DEVICE GID-INDEX message|request
#include <sys/mman.h>

#include <cstring>
#include <string_view>

#include "tests/system/memory/pair.hpp"
#include "tests/system/operation/crash_text.hpp"

namespace {

constexpr std::size_t kBytes = 4096;

void expect_event(ibv_context* context, ibv_event_type wanted) {
  ibv_async_event event{};
  expect(ibv_get_async_event(context, &event) == 0, "an event");
  expect(event.event_type == wanted, ibv_event_type_str(event.event_type));
  ibv_ack_async_event(&event);
}

/// The queue pair that sends fails. The program may go on with others.
void send_message(ibv_pd* pd, int gid_index) {
  // Pages of its own, which the adapter maps.
  char* const memory = static_cast<char*>(
      ::mmap(nullptr, 2 * kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  expect(memory != MAP_FAILED, "memory");
  ibv_mr* const mr =
      ibv_reg_mr(pd, memory, 2 * kBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  expect(mr != nullptr, "registering memory");
  const ibv_sge from{reinterpret_cast<std::uintptr_t>(memory), kBytes, mr->lkey};
  const std::uint64_t to = from.addr + kBytes;
  const Pair pair = make_pair(pd, gid_index);
  expect(write_to(pair, from, to, mr->rkey) == IBV_WC_SUCCESS, "a harmless write");
  std::memcpy(memory, kCrashText, sizeof kCrashText);
  expect(write_to(pair, from, to, mr->rkey) == IBV_WC_WR_FLUSH_ERR, "the queue pair has failed");
  expect_event(pd->context, IBV_EVENT_QP_FATAL);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  expect(ibv_query_qp(pair.from, &attr, IBV_QP_STATE, &init) == 0, "asking for the state");
  expect(attr.qp_state == IBV_QPS_ERR, "the error state");
  std::memset(memory, 'x', kBytes);
  const Pair other = make_pair(pd, gid_index);
  expect(write_to(other, from, to, mr->rkey) == IBV_WC_SUCCESS, "another queue pair");
  expect(memory[2 * kBytes - 1] == 'x', "its message");
  end_pair(other);
  end_pair(pair);
}

/// The session ends, as if the daemon had.
void make_request(ibv_pd* pd, int gid_index) {
  ibv_qp_init_attr init{};
  init.qp_type = IBV_QPT_UD;
  init.send_cq = init.recv_cq = ibv_create_cq(pd->context, 4, nullptr, nullptr, 0);
  init.cap.max_send_wr = init.cap.max_send_sge = 1;
  ibv_qp* const qp = ibv_create_qp(pd, &init);
  expect(qp != nullptr, "the queue pair");
  ibv_ah_attr attr{};
  std::memcpy(attr.grh.dgid.raw, kCrashText, sizeof attr.grh.dgid);
  attr.is_global = attr.port_num = 1;
  attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index);
  expect(ibv_create_ah(pd, &attr) == nullptr && errno == EIO, "the request fails");
  expect_event(pd->context, IBV_EVENT_DEVICE_FATAL);
}

}  // namespace

int main(int argc, char** argv) {
  expect(argc == 4, "usage: culprit DEVICE GID-INDEX message|request");
  ibv_pd* const pd = ibv_alloc_pd(open_device(argv[1]));
  expect(pd != nullptr, "the protection domain");
  (std::string_view(argv[3]) == "message" ? send_message : make_request)(pd, std::atoi(argv[2]));
  std::puts("done");
}
