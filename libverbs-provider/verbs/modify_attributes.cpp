// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/verbs/modify_attributes.hpp"

#include "libverbs-provider/verbs/address_handle.hpp"

namespace softhca::provider {
namespace {

/// Copies only the attributes that the mask names, as the caller may leave others uninitialised.
class Masked {
 public:
  explicit Masked(int mask) : mask_(mask) {}

  template <class Target, class Value>
  void copy(int bit, Target& target, const Value& value) const {
    if ((mask_ & bit) != 0) target = static_cast<Target>(value);
  }
  bool has(int bit) const { return (mask_ & bit) != 0; }

 private:
  int mask_;
};

}  // namespace

abi::QpAttributes to_qp_attributes(const ibv_qp_attr& attr, int mask) {
  abi::QpAttributes out{};
  const Masked given(mask);
  out.mask = static_cast<std::uint32_t>(mask);
  given.copy(IBV_QP_STATE, out.qp_state, attr.qp_state);
  given.copy(IBV_QP_CUR_STATE, out.cur_qp_state, attr.cur_qp_state);
  given.copy(IBV_QP_PATH_MTU, out.path_mtu, attr.path_mtu);
  given.copy(IBV_QP_PATH_MIG_STATE, out.path_mig_state, attr.path_mig_state);
  given.copy(IBV_QP_QKEY, out.qkey, attr.qkey);
  given.copy(IBV_QP_RQ_PSN, out.rq_psn, attr.rq_psn);
  given.copy(IBV_QP_SQ_PSN, out.sq_psn, attr.sq_psn);
  given.copy(IBV_QP_DEST_QPN, out.dest_qp_num, attr.dest_qp_num);
  given.copy(IBV_QP_ACCESS_FLAGS, out.access_flags, attr.qp_access_flags);
  if (given.has(IBV_QP_AV)) out.av = to_address_vector(attr.ah_attr);
  if (given.has(IBV_QP_ALT_PATH)) {
    out.alt_av = to_address_vector(attr.alt_ah_attr);
    out.alt_pkey_index = attr.alt_pkey_index;
    out.alt_port_num = attr.alt_port_num;
    out.alt_timeout = attr.alt_timeout;
  }
  given.copy(IBV_QP_PKEY_INDEX, out.pkey_index, attr.pkey_index);
  given.copy(IBV_QP_EN_SQD_ASYNC_NOTIFY, out.en_sqd_async_notify, attr.en_sqd_async_notify);
  given.copy(IBV_QP_MAX_QP_RD_ATOMIC, out.max_rd_atomic, attr.max_rd_atomic);
  given.copy(IBV_QP_MAX_DEST_RD_ATOMIC, out.max_dest_rd_atomic, attr.max_dest_rd_atomic);
  given.copy(IBV_QP_MIN_RNR_TIMER, out.min_rnr_timer, attr.min_rnr_timer);
  given.copy(IBV_QP_PORT, out.port_num, attr.port_num);
  given.copy(IBV_QP_TIMEOUT, out.timeout, attr.timeout);
  given.copy(IBV_QP_RETRY_CNT, out.retry_cnt, attr.retry_cnt);
  given.copy(IBV_QP_RNR_RETRY, out.rnr_retry, attr.rnr_retry);
  return out;
}

ibv_qp_attr from_qp_attributes(const abi::QpAttributes& attributes) {
  ibv_qp_attr attr{};
  attr.qp_state = static_cast<ibv_qp_state>(attributes.qp_state);
  attr.cur_qp_state = static_cast<ibv_qp_state>(attributes.cur_qp_state);
  attr.path_mtu = static_cast<ibv_mtu>(attributes.path_mtu);
  attr.path_mig_state = static_cast<ibv_mig_state>(attributes.path_mig_state);
  attr.qkey = attributes.qkey;
  attr.rq_psn = attributes.rq_psn;
  attr.sq_psn = attributes.sq_psn;
  attr.dest_qp_num = attributes.dest_qp_num;
  attr.qp_access_flags = attributes.access_flags;
  attr.ah_attr = from_address_vector(attributes.av);
  attr.alt_ah_attr = from_address_vector(attributes.alt_av);
  attr.pkey_index = attributes.pkey_index;
  attr.alt_pkey_index = attributes.alt_pkey_index;
  attr.en_sqd_async_notify = attributes.en_sqd_async_notify;
  attr.sq_draining = attributes.sq_draining;
  attr.max_rd_atomic = attributes.max_rd_atomic;
  attr.max_dest_rd_atomic = attributes.max_dest_rd_atomic;
  attr.min_rnr_timer = attributes.min_rnr_timer;
  attr.port_num = attributes.port_num;
  attr.timeout = attributes.timeout;
  attr.retry_cnt = attributes.retry_cnt;
  attr.rnr_retry = attributes.rnr_retry;
  attr.alt_port_num = attributes.alt_port_num;
  attr.alt_timeout = attributes.alt_timeout;
  return attr;
}

}  // namespace softhca::provider
