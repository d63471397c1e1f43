// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "libverbs-provider/context.hpp"
#include "libverbs-provider/explain.hpp"
#include "libverbs-provider/operations.hpp"
#include "libverbs-provider/verbs/clock.hpp"

namespace softhca::provider {
namespace {

// Values that verbs.h does not name.
constexpr std::uint8_t kPhysicalLinkUp = 5;
constexpr std::uint8_t kPhysicalDisabled = 3;
constexpr std::uint32_t kPortCommunicationManagement = 1u << 16;
constexpr std::uint32_t kPortIpBasedGids = 1u << 26;

constexpr std::uint64_t kNanosecondClock = 1'000'000;  ///< in kHz

constexpr unsigned kCapabilities = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
                                   IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
                                   IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B |
                                   IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_XRC;

// Bits of device_cap_flags_ex.
constexpr std::uint64_t kFlushGlobal = std::uint64_t{1} << 38;
constexpr std::uint64_t kAtomicWrite = std::uint64_t{1} << 40;

// Operations of each type of queue pair on regions that are paged on demand; they are the same as
// on other regions.
constexpr std::uint32_t kOdpSupportFlush = 1 << 6, kOdpSupportAtomicWrite = 1 << 7;
constexpr std::uint32_t kOdpUd =
    IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
constexpr std::uint32_t kOdpUc = kOdpUd | IBV_ODP_SUPPORT_WRITE;
constexpr std::uint32_t kOdpRc = kOdpUc | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
constexpr std::uint32_t kOdpRcOnly = kOdpRc | kOdpSupportFlush | kOdpSupportAtomicWrite;

int as_int(std::uint32_t value) {
  return static_cast<int>(std::min<std::uint32_t>(value, 0x7fffffff));
}

ibv_device_attr describe(const abi::DeviceReply& limits) {
  ibv_device_attr attr{};
  static_assert(sizeof attr.fw_ver >= sizeof limits.firmware);
  std::memcpy(attr.fw_ver, limits.firmware, sizeof limits.firmware - 1);
  attr.node_guid = limits.node_guid;
  attr.sys_image_guid = limits.sys_image_guid;
  attr.max_mr_size = limits.max_mr_size;
  attr.page_size_cap = ~std::uint64_t{4095};  // all powers of two from 4 KiB
  attr.vendor_id = limits.vendor_id;
  attr.vendor_part_id = limits.vendor_part_id;
  attr.hw_ver = limits.hw_version;
  attr.max_qp = as_int(limits.max_qp);
  attr.max_qp_wr = as_int(limits.max_qp_wr);
  attr.device_cap_flags = kCapabilities;
  if ((limits.capabilities & abi::kCanResizeSrq) != 0)
    attr.device_cap_flags |= IBV_DEVICE_SRQ_RESIZE;
  attr.max_sge = as_int(limits.max_sge);
  attr.max_sge_rd = as_int(limits.max_sge);
  attr.max_cq = as_int(limits.max_cq);
  attr.max_cqe = as_int(limits.max_cqe);
  attr.max_mr = as_int(limits.max_mr);
  attr.max_mw = as_int(limits.max_mw);
  attr.max_pd = as_int(limits.max_pd);
  attr.max_qp_rd_atom = as_int(limits.max_rd_atomic);
  attr.max_qp_init_rd_atom = as_int(limits.max_rd_atomic);
  const std::uint64_t resources = std::uint64_t{limits.max_rd_atomic} * limits.max_qp;
  attr.max_res_rd_atom = static_cast<int>(std::min<std::uint64_t>(resources, 0x7fffffff));
  attr.atomic_cap = IBV_ATOMIC_HCA;
  attr.max_ah = as_int(limits.max_ah);
  attr.max_srq = as_int(limits.max_srq);
  attr.max_srq_wr = as_int(limits.max_srq_wr);
  attr.max_srq_sge = as_int(limits.max_srq_sge);
  // The upper bound: each queue pair in its full number of groups, and no shared groups.
  attr.max_mcast_grp = attr.max_total_mcast_qp_attach = as_int(
      std::min(limits.max_qp, 0x7fffffff / abi::kMaxMulticastGroups) * abi::kMaxMulticastGroups);
  attr.max_mcast_qp_attach = abi::kMaxMulticastMembers;
  attr.max_pkeys = 1;
  attr.phys_port_cnt = static_cast<std::uint8_t>(std::max(limits.ports, 1u));
  return attr;
}

}  // namespace

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, std::size_t attr_size) {
  if (input != nullptr && input->comp_mask != 0)
    return refuse(EINVAL, "comp_mask 0x%x, must be 0", input->comp_mask);
  ibv_device_attr_ex full{};
  full.orig_attr = describe(to_context(context)->limits);
  full.device_cap_flags_ex = full.orig_attr.device_cap_flags | kFlushGlobal | kAtomicWrite;
  full.phys_port_cnt_ex = full.orig_attr.phys_port_cnt;
  full.odp_caps.general_caps = IBV_ODP_SUPPORT;
  if ((to_context(context)->limits.capabilities & abi::kCanReachProcess) != 0)
    full.odp_caps.general_caps |= IBV_ODP_SUPPORT_IMPLICIT;
  full.odp_caps.per_transport_caps = {kOdpRcOnly, kOdpUc, kOdpUd};
  full.xrc_odp_caps = kOdpRc;
  full.completion_timestamp_mask = ~std::uint64_t{0};
  full.hca_core_clock = kNanosecondClock;
  full.cq_mod_caps = {0xffff, 0xffff};
  // The caller's structure may be of an older version, or end after its first part.
  std::memcpy(attr, &full, std::min(attr_size, sizeof full));
  return 0;
}

/// Returns the clock of completion timestamps. As adapters do, it reports the plain count in
/// tv_nsec.
int query_rt_values(ibv_context*, ibv_values_ex* values) {
  const std::uint32_t known = values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK;
  if (known != 0) values->raw_clock = {0, static_cast<long>(nanoseconds(CLOCK_MONOTONIC))};
  values->comp_mask = known;
  return 0;
}

int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) {
  abi::PortReply reply{};
  const int error = to_context(context)->control.call(abi::Operation::kQueryPort,
                                                      abi::HandleBody{port, 0}, reply);
  if (error != 0) return error;
  // The library has cleared `attr`, which may be smaller than in this build's header.
  attr->state = static_cast<ibv_port_state>(reply.state);
  attr->max_mtu = static_cast<ibv_mtu>(reply.max_mtu);
  attr->active_mtu = static_cast<ibv_mtu>(reply.active_mtu);
  attr->gid_tbl_len = as_int(reply.gid_entries);
  attr->port_cap_flags = kPortCommunicationManagement | kPortIpBasedGids;
  attr->max_msg_sz = reply.max_message_bytes;
  attr->bad_pkey_cntr = reply.bad_pkey_count;
  attr->qkey_viol_cntr = reply.qkey_violations;
  attr->pkey_tbl_len = 1;
  attr->max_vl_num = 1;
  attr->active_width = static_cast<std::uint8_t>(reply.active_width);
  attr->active_speed = static_cast<std::uint8_t>(reply.active_speed);
  attr->phys_state = reply.state == IBV_PORT_ACTIVE ? kPhysicalLinkUp : kPhysicalDisabled;
  attr->link_layer = IBV_LINK_LAYER_ETHERNET;
  return 0;
}

}  // namespace softhca::provider
