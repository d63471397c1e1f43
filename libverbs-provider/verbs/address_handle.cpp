// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/verbs/address_handle.hpp"

#include <cerrno>
#include <cstring>

#include "libverbs-provider/context.hpp"
#include "libverbs-provider/heap.hpp"
#include "libverbs-provider/operations.hpp"

namespace softhca::provider {

abi::AddressVector to_address_vector(const ibv_ah_attr& attr) {
  abi::AddressVector av{};
  std::memcpy(av.dgid, attr.grh.dgid.raw, sizeof av.dgid);
  av.flow_label = attr.grh.flow_label;
  av.sgid_index = attr.grh.sgid_index;
  av.hop_limit = attr.grh.hop_limit;
  av.traffic_class = attr.grh.traffic_class;
  av.is_global = attr.is_global != 0 ? 1 : 0;
  av.sl = attr.sl;
  av.static_rate = attr.static_rate;
  av.port_num = attr.port_num;
  av.src_path_bits = attr.src_path_bits;
  av.dlid = attr.dlid;
  return av;
}

ibv_ah_attr from_address_vector(const abi::AddressVector& av) {
  ibv_ah_attr attr{};
  std::memcpy(attr.grh.dgid.raw, av.dgid, sizeof av.dgid);
  attr.grh.flow_label = av.flow_label;
  attr.grh.sgid_index = av.sgid_index;
  attr.grh.hop_limit = av.hop_limit;
  attr.grh.traffic_class = av.traffic_class;
  attr.is_global = av.is_global;
  attr.sl = av.sl;
  attr.static_rate = av.static_rate;
  attr.port_num = av.port_num;
  attr.src_path_bits = av.src_path_bits;
  attr.dlid = av.dlid;
  return attr;
}

ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  Owned<ibv_ah> ah(make<ibv_ah>());
  if (ah == nullptr) return nullptr;
  const abi::CreateAhRequest request{pd->handle, 0, to_address_vector(*attr)};
  abi::HandleBody reply{};
  ControlChannel& control = to_context(pd->context)->control;
  if (const int error = control.call(abi::Operation::kCreateAh, request, reply)) {
    errno = error;
    return nullptr;
  }
  *ah = {pd->context, pd, reply.handle};
  return ah.release();
}

int destroy_ah(ibv_ah* ah) {
  ControlChannel& control = to_context(ah->context)->control;
  if (const int error = control.destroy(abi::Operation::kDestroyAh, ah->handle)) return error;
  dispose(ah);
  return 0;
}

}  // namespace softhca::provider
