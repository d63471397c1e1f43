// SPDX-License-Identifier: Apache-2.0

// Connections by rdma_cm that end right after their last messages: the client posts them and at
// once disconnects, takes its queue pair to ERR or SQD, resets or destroys it, in turn. Each
// message must reach the server, which waits for them before it disconnects.
//
// usage: last-words serve|connect ADDRESS PORT CONNECTIONS
#include <rdma/rdma_verbs.h>

#include <cstddef>
#include <cstring>
#include <ctime>
#include <iterator>

#include "tests/system/programs.hpp"

namespace {

constexpr int kMessages = 4;  // at the end of each connection
constexpr std::size_t kLong = 16384;

char buffer[kMessages * kLong];

struct Last {
  const char* name;
  void (*end)(rdma_cm_id* id);
};

void take_to(rdma_cm_id* id, ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  expect(ibv_modify_qp(id->qp, &attr, IBV_QP_STATE) == 0, "modify");
}

constexpr Last kLast[] = {
    {"disconnect", [](rdma_cm_id*) {}},
    {"ERR", [](rdma_cm_id* id) { take_to(id, IBV_QPS_ERR); }},
    {"SQD", [](rdma_cm_id* id) { take_to(id, IBV_QPS_SQD); }},
    {"RESET",
     [](rdma_cm_id* id) {
       take_to(id, IBV_QPS_RESET);
       rdma_destroy_qp(id);  // rdma_disconnect() takes it to ERR, which is not allowed
     }},
    {"destroy", [](rdma_cm_id* id) { rdma_destroy_qp(id); }},
};

/// Which messages of a connection are long: in turn all, none, and some.
std::size_t length(int connection, int message) {
  return (connection + message) % 3 == 0 || connection % 2 == 0 ? 8 : kLong;
}

ibv_qp_init_attr queues() {
  ibv_qp_init_attr init{};
  init.cap = {.max_send_wr = kMessages,
              .max_recv_wr = kMessages,
              .max_send_sge = 1,
              .max_recv_sge = 1,
              .max_inline_data = 0};
  init.qp_type = IBV_QPT_RC;
  return init;
}

void say_last_words(rdma_addrinfo* info, int connection) {
  ibv_qp_init_attr init = queues();
  rdma_cm_id* id = nullptr;
  expect(rdma_create_ep(&id, info, nullptr, &init) == 0, "end point");
  ibv_mr* const mr = rdma_reg_msgs(id, buffer, sizeof buffer);
  expect(mr != nullptr, "region");
  rdma_conn_param parameters{};
  parameters.retry_count = parameters.rnr_retry_count = 7;
  expect(rdma_connect(id, &parameters) == 0, "connect");
  for (int i = 0; i < kMessages; ++i)
    expect(rdma_post_send(id, nullptr, buffer + i * kLong, length(connection, i), mr, 0) == 0,
           "send");
  kLast[static_cast<std::size_t>(connection) % std::size(kLast)].end(id);
  expect(rdma_disconnect(id) == 0, "disconnect");
  rdma_dereg_mr(mr);
  rdma_destroy_ep(id);
}

/// Messages that have come when the connection is over.
int hear(rdma_cm_id* listener) {
  rdma_cm_id* id = nullptr;
  expect(rdma_get_request(listener, &id) == 0, "request");
  ibv_mr* const mr = rdma_reg_msgs(id, buffer, sizeof buffer);
  expect(mr != nullptr, "region");
  for (int i = 0; i < kMessages; ++i)
    expect(rdma_post_recv(id, nullptr, buffer + i * kLong, kLong, mr) == 0, "receive");
  expect(rdma_accept(id, nullptr) == 0, "accept");
  int heard = 0;
  timespec begin{}, now{};
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (now = begin; heard < kMessages && now.tv_sec - begin.tv_sec < kPatience;
       clock_gettime(CLOCK_MONOTONIC, &now)) {
    ibv_wc done{};
    if (ibv_poll_cq(id->recv_cq, 1, &done) == 1) {
      expect(done.status == IBV_WC_SUCCESS, ibv_wc_status_str(done.status));
      ++heard;
    } else {
      sched_yield();
    }
  }
  expect(rdma_disconnect(id) == 0, "disconnect");
  rdma_dereg_mr(mr);
  rdma_destroy_ep(id);
  return heard;
}

}  // namespace

int main(int count, char** arguments) {
  expect(count == 5, "usage: last-words serve|connect ADDRESS PORT CONNECTIONS");
  const bool serves = std::strcmp(arguments[1], "serve") == 0;
  const int connections = std::atoi(arguments[4]);
  rdma_addrinfo hints{};
  hints.ai_port_space = RDMA_PS_TCP;
  hints.ai_flags = serves ? RAI_PASSIVE : 0;
  rdma_addrinfo* info = nullptr;
  expect(rdma_getaddrinfo(arguments[2], arguments[3], &hints, &info) == 0, "address");
  if (!serves) {
    for (int i = 0; i < connections; ++i) say_last_words(info, i);
    return 0;
  }
  ibv_qp_init_attr init = queues();
  rdma_cm_id* listener = nullptr;
  expect(rdma_create_ep(&listener, info, nullptr, &init) == 0, "end point");
  expect(rdma_listen(listener, 8) == 0, "listen");
  for (int i = 0; i < connections; ++i) {
    const int heard = hear(listener);
    if (heard == kMessages) continue;
    std::fprintf(stderr, "connection %d (%s): %d of %d last messages came\n", i,
                 kLast[static_cast<std::size_t>(i) % std::size(kLast)].name, heard, kMessages);
    return 1;
  }
  return 0;
}
