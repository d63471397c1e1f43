// SPDX-License-Identifier: Apache-2.0

// The functions of librdmacm that make the commands of an event channel (kConnectionCommand), for
// messages.
#pragma once

// Included before the kernel's header, which then omits the socket addresses.
#include <netinet/in.h>
// clang-format off
#include <rdma/rdma_user_cm.h>
// clang-format on

#include <cstdint>

namespace softhca::abi {

constexpr const char* rdma_cm_call(std::uint32_t command) {
  constexpr struct {
    std::uint32_t command;
    const char* call;
  } kCalls[] = {
      {RDMA_USER_CM_CMD_CREATE_ID, "rdma_create_id"},
      {RDMA_USER_CM_CMD_DESTROY_ID, "rdma_destroy_id"},
      {RDMA_USER_CM_CMD_BIND_IP, "rdma_bind_addr"},
      {RDMA_USER_CM_CMD_RESOLVE_IP, "rdma_resolve_addr"},
      {RDMA_USER_CM_CMD_RESOLVE_ROUTE, "rdma_resolve_route"},
      {RDMA_USER_CM_CMD_CONNECT, "rdma_connect"},
      {RDMA_USER_CM_CMD_LISTEN, "rdma_listen"},
      {RDMA_USER_CM_CMD_ACCEPT, "rdma_accept"},
      {RDMA_USER_CM_CMD_REJECT, "rdma_reject"},
      {RDMA_USER_CM_CMD_DISCONNECT, "rdma_disconnect"},
      {RDMA_USER_CM_CMD_INIT_QP_ATTR, "rdma_init_qp_attr"},
      {RDMA_USER_CM_CMD_GET_EVENT, "rdma_get_cm_event"},
      {RDMA_USER_CM_CMD_SET_OPTION, "rdma_set_option"},
      {RDMA_USER_CM_CMD_NOTIFY, "rdma_notify"},
      {RDMA_USER_CM_CMD_JOIN_IP_MCAST, "rdma_join_multicast"},
      {RDMA_USER_CM_CMD_LEAVE_MCAST, "rdma_leave_multicast"},
      {RDMA_USER_CM_CMD_MIGRATE_ID, "rdma_migrate_id"},
  };
  for (const auto& [known, call] : kCalls)
    if (known == command) return call;
  return "rdma_cm";
}

}  // namespace softhca::abi
