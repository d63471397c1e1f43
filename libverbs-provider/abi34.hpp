// SPDX-License-Identifier: Apache-2.0

// Private binary interface number 34 between libibverbs and its providers, as far as this provider
// uses it. rdma-core 34 to 56 have this number; 36 and later have the operations below.
// Distributions do not package the header. Sizes and offsets come from the packaged library of
// version 44, compared with the sources of the others: they differ only in VerbsQp.
// private_interfaces.hpp has what later numbers added.
#pragma once

#include <infiniband/verbs.h>
#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>

namespace softhca::provider::abi34 {

/// Size of a mutex beyond that on x86-64 (arm64: 8). Objects with a mutex are larger by this
/// amount.
inline constexpr std::size_t kMutexGrowth = sizeof(pthread_mutex_t) - 40;

struct ListNode {
  ListNode* next;
  ListNode* previous;
};

struct MatchEntry {
  void* driver_data;
  union {
    const char* modalias;
    std::uint64_t driver_id;
  };
  std::uint16_t vendor;
  std::uint16_t device;
  std::uint8_t kind;  ///< 0 ends a table
};
static_assert(sizeof(MatchEntry) == 24);
static_assert(offsetof(MatchEntry, vendor) == 16 && offsetof(MatchEntry, kind) == 20);

struct SysfsDevice {
  ListNode node;
  void* provider_data;
  const MatchEntry* match;
  std::uint32_t flags;
  char sysfs_name[64];
  dev_t sysfs_cdev;
  char ibdev_name[64];
  char ibdev_path[256];
  char modalias[512];
  std::uint64_t node_guid;
  std::uint32_t driver_id;
  std::uint32_t node_type;
  int ibdev_idx;
  std::uint32_t num_ports;
  std::uint32_t abi_ver;
  timespec time_created;
};
static_assert(sizeof(SysfsDevice) == 992);
static_assert(offsetof(SysfsDevice, provider_data) == 16 && offsetof(SysfsDevice, match) == 24);
static_assert(offsetof(SysfsDevice, flags) == 32 && offsetof(SysfsDevice, sysfs_name) == 36);
static_assert(offsetof(SysfsDevice, sysfs_cdev) == 104 && offsetof(SysfsDevice, ibdev_name) == 112);
static_assert(offsetof(SysfsDevice, ibdev_path) == 176 && offsetof(SysfsDevice, modalias) == 432);
static_assert(offsetof(SysfsDevice, node_guid) == 944 && offsetof(SysfsDevice, driver_id) == 952);
static_assert(offsetof(SysfsDevice, node_type) == 956 && offsetof(SysfsDevice, ibdev_idx) == 960);
static_assert(offsetof(SysfsDevice, num_ports) == 964 && offsetof(SysfsDevice, abi_ver) == 968);
static_assert(offsetof(SysfsDevice, time_created) == 976);

struct VerbsDevice;

struct DeviceOps {
  const char* name;
  std::uint32_t match_min_abi_version;
  std::uint32_t match_max_abi_version;
  const MatchEntry* match_table;
  const DeviceOps** static_providers;
  bool (*match_device)(SysfsDevice*);
  /// Owns cmd_fd from the call on, even if it fails.
  verbs_context* (*alloc_context)(ibv_device*, int cmd_fd, void* private_data);
  verbs_context* (*import_context)(ibv_device*, int cmd_fd);
  VerbsDevice* (*alloc_device)(SysfsDevice*);
  void (*uninit_device)(VerbsDevice*);
};
static_assert(sizeof(DeviceOps) == 72);
static_assert(offsetof(DeviceOps, match_table) == 16 && offsetof(DeviceOps, match_device) == 32);
static_assert(offsetof(DeviceOps, alloc_context) == 40 && offsetof(DeviceOps, alloc_device) == 56);
static_assert(offsetof(DeviceOps, import_context) == 48 &&
              offsetof(DeviceOps, uninit_device) == 64);

struct VerbsDevice {
  ibv_device device;
  const DeviceOps* ops;
  std::atomic<int> refcount;
  ListNode node;
  SysfsDevice* sysfs;
  std::uint64_t core_support;
};
static_assert(sizeof(VerbsDevice) == 712);
static_assert(offsetof(VerbsDevice, ops) == 664 && offsetof(VerbsDevice, refcount) == 672);
static_assert(offsetof(VerbsDevice, node) == 680 && offsetof(VerbsDevice, sysfs) == 696);
static_assert(offsetof(VerbsDevice, core_support) == 704);

/// VerbsMr::type; 0 is an ordinary region.
inline constexpr std::uint32_t kNullMr = 1;
inline constexpr std::uint32_t kImportedMr = 2;

struct VerbsMr {
  ibv_mr mr;
  std::uint32_t type;
  int access;
};
static_assert(sizeof(VerbsMr) == 56);
static_assert(offsetof(VerbsMr, type) == 48 && offsetof(VerbsMr, access) == 52);

/// Flag of a queue pair that makes ibv_qp_to_qp_ex() return it.
inline constexpr std::uint32_t kQpIsExtended = 1 << 1;

/// The library expects the flags just behind its ibv_qp_ex. That structure grew twice under the
/// same interface number: by wr_atomic_write and by wr_flush. So each version has its own place for
/// the flags.
inline constexpr std::size_t kQpFlagPlaces[] = {
    offsetof(ibv_qp_ex, wr_abort) + 1 * sizeof(void (*)()),  // rdma-core 36 to 43
    offsetof(ibv_qp_ex, wr_abort) + 2 * sizeof(void (*)()),  // 44: behind wr_atomic_write
    offsetof(ibv_qp_ex, wr_abort) + 3 * sizeof(void (*)()),  // 45 to 56: behind wr_flush
};

struct VerbsQp {
  union {
    ibv_qp qp;
    ibv_qp_ex qp_ex;                                        ///< as in the header of this build
    std::byte bytes[kQpFlagPlaces[2] + 2 * sizeof(void*)];  ///< the largest, and another pointer
  };

  /// Sets the flags in all places. This overwrites wr_atomic_write and wr_flush, which newer
  /// versions have in the first and second place, so set these operations afterwards.
  void set_flags(std::uint32_t flags) {
    for (const std::size_t place : kQpFlagPlaces) std::memcpy(bytes + place, &flags, sizeof flags);
  }
  /// Sets ibv_qp_ex::wr_flush, which this build's header may lack.
  void set_flush(void (*wr_flush)(ibv_qp_ex*, std::uint32_t rkey, std::uint64_t addr,
                                  std::size_t bytes, std::uint8_t placement,
                                  std::uint8_t selectivity)) {
    std::memcpy(bytes + kQpFlagPlaces[1], &wr_flush, sizeof wr_flush);
  }
};
static_assert(sizeof(VerbsQp) == 376 + kMutexGrowth);
static_assert(offsetof(ibv_qp_ex, wr_atomic_write) == kQpFlagPlaces[0]);

struct VerbsCq {
  union {
    ibv_cq cq;
    ibv_cq_ex cq_ex;
  };
};
static_assert(sizeof(VerbsCq) == 288 + kMutexGrowth);

struct VerbsSrq {
  ibv_srq srq;
  ibv_srq_type type;
  void* xrcd;
  ibv_cq* cq;
  std::uint32_t srq_num;
};
static_assert(sizeof(VerbsSrq) == 160 + kMutexGrowth);
static_assert(offsetof(VerbsSrq, type) == 128 + kMutexGrowth &&
              offsetof(VerbsSrq, xrcd) == 136 + kMutexGrowth);
static_assert(offsetof(VerbsSrq, cq) == 144 + kMutexGrowth &&
              offsetof(VerbsSrq, srq_num) == 152 + kMutexGrowth);

struct VerbsXrcd {
  ibv_xrcd xrcd;
  std::uint32_t comp_mask;
  std::uint32_t handle;
};
static_assert(sizeof(VerbsXrcd) == 16);
static_assert(offsetof(VerbsXrcd, comp_mask) == 8 && offsetof(VerbsXrcd, handle) == 12);

/// Bytes in front of the ibv_context at the end of a verbs_context. (The header of this build may
/// be of a later version.)
inline constexpr std::size_t kContextFront = 320;
static_assert(sizeof(ibv_context) == 328 + kMutexGrowth);
static_assert(offsetof(ibv_context, cmd_fd) == 264 && offsetof(ibv_context, async_fd) == 268);

/// An operation that this provider does not have; the library answers EOPNOTSUPP.
using NotProvided = void (*)();

/// The operations of verbs_set_ops(), by number 34; a null entry keeps the library's own.
struct ContextOps {
  int (*advise_mr)(ibv_pd*, ibv_advise_mr_advice, std::uint32_t flags, ibv_sge* list,
                   std::uint32_t count);
  NotProvided alloc_dm;
  ibv_mw* (*alloc_mw)(ibv_pd*, ibv_mw_type);
  ibv_mr* (*alloc_null_mr)(ibv_pd*);
  ibv_pd* (*alloc_parent_domain)(ibv_context*, ibv_parent_domain_init_attr*);
  ibv_pd* (*alloc_pd)(ibv_context*);
  ibv_td* (*alloc_td)(ibv_context*, ibv_td_init_attr*);
  void (*async_event)(ibv_context*, ibv_async_event*);
  NotProvided attach_counters_point_flow;
  int (*attach_mcast)(ibv_qp*, const ibv_gid* group, std::uint16_t lid);
  int (*bind_mw)(ibv_qp*, ibv_mw*, ibv_mw_bind*);
  int (*close_xrcd)(ibv_xrcd*);
  void (*cq_event)(ibv_cq*);
  ibv_ah* (*create_ah)(ibv_pd*, ibv_ah_attr*);
  NotProvided create_counters;
  ibv_cq* (*create_cq)(ibv_context*, int cqe, ibv_comp_channel*, int comp_vector);
  ibv_cq_ex* (*create_cq_ex)(ibv_context*, ibv_cq_init_attr_ex*);
  NotProvided create_flow;
  NotProvided create_flow_action_esp;
  ibv_qp* (*create_qp)(ibv_pd*, ibv_qp_init_attr*);
  ibv_qp* (*create_qp_ex)(ibv_context*, ibv_qp_init_attr_ex*);
  NotProvided create_rwq_ind_table;
  ibv_srq* (*create_srq)(ibv_pd*, ibv_srq_init_attr*);
  ibv_srq* (*create_srq_ex)(ibv_context*, ibv_srq_init_attr_ex*);
  NotProvided create_wq;
  int (*dealloc_mw)(ibv_mw*);
  int (*dealloc_pd)(ibv_pd*);
  int (*dealloc_td)(ibv_td*);
  int (*dereg_mr)(VerbsMr*);
  int (*destroy_ah)(ibv_ah*);
  NotProvided destroy_counters;
  int (*destroy_cq)(ibv_cq*);
  NotProvided destroy_flow;
  NotProvided destroy_flow_action;
  int (*destroy_qp)(ibv_qp*);
  NotProvided destroy_rwq_ind_table;
  int (*destroy_srq)(ibv_srq*);
  NotProvided destroy_wq;
  int (*detach_mcast)(ibv_qp*, const ibv_gid* group, std::uint16_t lid);
  void (*free_context)(ibv_context*);
  NotProvided free_dm;
  int (*get_srq_num)(ibv_srq*, std::uint32_t* number);
  NotProvided import_dm;
  ibv_mr* (*import_mr)(ibv_pd*, std::uint32_t handle);
  ibv_pd* (*import_pd)(ibv_context*, std::uint32_t handle);
  int (*modify_cq)(ibv_cq*, ibv_modify_cq_attr*);
  NotProvided modify_flow_action_esp;
  int (*modify_qp)(ibv_qp*, ibv_qp_attr*, int mask);
  NotProvided modify_qp_rate_limit;
  int (*modify_srq)(ibv_srq*, ibv_srq_attr*, int mask);
  NotProvided modify_wq;
  ibv_qp* (*open_qp)(ibv_context*, ibv_qp_open_attr*);
  ibv_xrcd* (*open_xrcd)(ibv_context*, ibv_xrcd_init_attr*);
  int (*poll_cq)(ibv_cq*, int entries, ibv_wc*);
  int (*post_recv)(ibv_qp*, ibv_recv_wr*, ibv_recv_wr** bad);
  int (*post_send)(ibv_qp*, ibv_send_wr*, ibv_send_wr** bad);
  NotProvided post_srq_ops;
  int (*post_srq_recv)(ibv_srq*, ibv_recv_wr*, ibv_recv_wr** bad);
  int (*query_device_ex)(ibv_context*, const ibv_query_device_ex_input*, ibv_device_attr_ex*,
                         std::size_t attr_size);
  NotProvided query_ece;
  int (*query_port)(ibv_context*, std::uint8_t port, ibv_port_attr*);
  int (*query_qp)(ibv_qp*, ibv_qp_attr*, int mask, ibv_qp_init_attr*);
  NotProvided query_qp_data_in_order;
  int (*query_rt_values)(ibv_context*, ibv_values_ex*);
  int (*query_srq)(ibv_srq*, ibv_srq_attr*);
  NotProvided read_counters;
  NotProvided reg_dm_mr;
  NotProvided reg_dmabuf_mr;
  ibv_mr* (*reg_mr)(ibv_pd*, void* addr, std::size_t length, std::uint64_t iova, int access);
  int (*req_notify_cq)(ibv_cq*, int solicited_only);
  int (*rereg_mr)(VerbsMr*, int flags, ibv_pd*, void* addr, std::size_t length, int access);
  int (*resize_cq)(ibv_cq*, int cqe);
  NotProvided set_ece;
  NotProvided unimport_dm;
  void (*unimport_mr)(ibv_mr*);
  void (*unimport_pd)(ibv_pd*);
};
static_assert(sizeof(ContextOps) == 608);
static_assert(offsetof(ContextOps, create_qp) == 152 && offsetof(ContextOps, dereg_mr) == 224);
static_assert(offsetof(ContextOps, poll_cq) == 424 && offsetof(ContextOps, resize_cq) == 568);

}  // namespace softhca::provider::abi34

// Exported by libibverbs.so.1 with the version IBVERBS_PRIVATE_34, or another number.
extern "C" {
/// Takes over cmd_fd, even if it fails. `verbs_context_offset` is a number of bytes.
// NOLINTNEXTLINE(readability-identifier-naming)
void* _verbs_init_and_alloc_context(ibv_device* device, int cmd_fd, std::size_t bytes,
                                    verbs_context* verbs_context_offset, std::uint32_t driver_id);
/// `ops`: the operations of this version of the library, one pointer each.
void verbs_set_ops(verbs_context* context, const softhca::provider::abi34::NotProvided* ops);
void verbs_uninit_context(verbs_context* context);
}
