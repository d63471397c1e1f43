// SPDX-License-Identifier: Apache-2.0

// The operations that this provider gives to the library, by file of verbs/. An operation that
// returns a pointer sets errno if it is null. One that returns int returns 0 or an errno value
// (polling: a count, or a negative errno value). As on the kernel's path, errno also has the value.
// Posting, polling and arming set it and explain their failures themselves (explain.hpp).
// device.cpp does so for the others.
#pragma once

#include "libverbs-provider/abi34.hpp"

namespace softhca::provider {

// query.cpp
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, std::size_t attr_size);
int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr);

int query_rt_values(ibv_context* context, ibv_values_ex* values);

// domains.cpp
ibv_pd* alloc_pd(ibv_context* context);
int dealloc_pd(ibv_pd* pd);
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* init);
int dealloc_td(ibv_td* td);
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* init);
ibv_pd* import_pd(ibv_context* context, std::uint32_t handle);
void unimport_pd(ibv_pd* pd);

// xrc_domain.cpp
ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* init);
int close_xrcd(ibv_xrcd* xrcd);

// memory.cpp
ibv_mr* reg_mr(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova, int access);
ibv_mr* alloc_null_mr(ibv_pd* pd);
int rereg_mr(abi34::VerbsMr* mr, int flags, ibv_pd* pd, void* addr, std::size_t length, int access);
int dereg_mr(abi34::VerbsMr* mr);
ibv_mr* import_mr(ibv_pd* pd, std::uint32_t handle);
void unimport_mr(ibv_mr* mr);

// prefetch.cpp
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* list,
              std::uint32_t count);

// memory_window.cpp
ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
int dealloc_mw(ibv_mw* mw);
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);

// address_handle.cpp
ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attr);
int destroy_ah(ibv_ah* ah);

// cq_verbs.cpp
ibv_cq* create_cq(ibv_context* context, int cqe, ibv_comp_channel* channel, int comp_vector);
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* init);
int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attr);
int resize_cq(ibv_cq* cq, int cqe);
int destroy_cq(ibv_cq* cq);
int req_notify_cq(ibv_cq* cq, int solicited_only);

// poll.cpp
int poll_cq(ibv_cq* cq, int entries, ibv_wc* wc);

// srq_verbs.cpp
ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* init);
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* init);
int get_srq_num(ibv_srq* srq, std::uint32_t* number);
int modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask);
int query_srq(ibv_srq* srq, ibv_srq_attr* attr);
int destroy_srq(ibv_srq* srq);

// qp_verbs.cpp
ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* init);
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* init);
ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attr);
int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask);
int query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init);
int destroy_qp(ibv_qp* qp);

// multicast_verbs.cpp
int attach_mcast(ibv_qp* qp, const ibv_gid* group, std::uint16_t lid);
int detach_mcast(ibv_qp* qp, const ibv_gid* group, std::uint16_t lid);

// post_send.cpp, post_receive.cpp
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad);

}  // namespace softhca::provider
