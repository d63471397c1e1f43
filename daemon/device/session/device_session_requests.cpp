// SPDX-License-Identifier: Apache-2.0

// The part of a session that answers each request.
#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

#include "daemon/device/session/device_session.hpp"

namespace softhca::control {
namespace {

template <auto Method>
int by_session(DeviceSession& session, const RequestBody& body, Reply& reply) {
  return (session.*Method)(body, reply);
}

template <auto Part, auto Method>
int by(DeviceSession& session, const RequestBody& body, Reply& reply) {
  return ((session.*Part).*Method)(body, reply);
}

}  // namespace

struct DeviceSession::Requests {
  struct Row {
    abi::Operation operation;
    const char* verb;
    Handler handler;
    bool ends;
    bool is_monitors;
  };
  using Op = abi::Operation;
  using S = DeviceSession;
  static constexpr Row kRows[] = {
      {Op::kHello, "ibv_open_device", by_session<&S::hello>},
      {Op::kQueryDevice, "ibv_query_device", by_session<&S::query_device>},
      {Op::kQueryPort, "ibv_query_port", by_session<&S::query_port>},

      {Op::kAllocPd, "ibv_alloc_pd", by<&S::pds_, &PdObjects::alloc>},
      {Op::kDeallocPd, "ibv_dealloc_pd", by<&S::pds_, &PdObjects::dealloc>, true},
      {Op::kImportPd, "ibv_import_pd", by<&S::pds_, &PdObjects::import>},
      {Op::kShareContext, "ibv_open_device", by<&S::pds_, &PdObjects::share_context>},
      {Op::kJoinContext, "ibv_import_device", by<&S::pds_, &PdObjects::join_context>},

      {Op::kAllocShared, "ibv_reg_mr", by<&S::buffers_, &SharedBuffers::alloc>},
      {Op::kFreeShared, "ibv_dereg_mr", by<&S::buffers_, &SharedBuffers::free>, true},
      {Op::kOfferMemory, "ibv_reg_mr", by_session<&S::offer_memory>},
      {Op::kNameShared, "ibv_reg_mr", by<&S::buffers_, &SharedBuffers::name>},
      {Op::kJoinShared, "ibv_reg_mr", by<&S::buffers_, &SharedBuffers::join>},
      {Op::kRegisterMr, "ibv_reg_mr", by<&S::regions_, &MrObjects::register_mr>},
      {Op::kReregisterMr, "ibv_rereg_mr", by<&S::regions_, &MrObjects::reregister_mr>},
      {Op::kDeregisterMr, "ibv_dereg_mr", by<&S::regions_, &MrObjects::deregister_mr>, true},
      {Op::kAllocNullMr, "ibv_alloc_null_mr", by<&S::regions_, &MrObjects::alloc_null_mr>},
      {Op::kImportMr, "ibv_import_mr", by<&S::regions_, &MrObjects::import_mr>},
      {Op::kAllocWindow, "ibv_alloc_mw", by<&S::windows_, &MwObjects::alloc>},
      {Op::kDeallocWindow, "ibv_dealloc_mw", by<&S::windows_, &MwObjects::dealloc>, true},

      {Op::kCreateChannel, "ibv_create_comp_channel", by<&S::cqs_, &CqObjects::create_channel>},
      {Op::kCreateCq, "ibv_create_cq", by<&S::cqs_, &CqObjects::create>},
      {Op::kResizeCq, "ibv_resize_cq", by<&S::cqs_, &CqObjects::resize>},
      {Op::kModifyCq, "ibv_modify_cq", by<&S::cqs_, &CqObjects::modify>},
      {Op::kDestroyCq, "ibv_destroy_cq", by<&S::cqs_, &CqObjects::destroy>, true},

      {Op::kCreateSrq, "ibv_create_srq", by<&S::srqs_, &SrqObjects::create>},
      {Op::kModifySrq, "ibv_modify_srq", by<&S::srqs_, &SrqObjects::modify>},
      {Op::kResizeSrq, "ibv_modify_srq", by<&S::srqs_, &SrqObjects::resize>},
      {Op::kQuerySrq, "ibv_query_srq", by<&S::srqs_, &SrqObjects::query>},
      {Op::kDestroySrq, "ibv_destroy_srq", by<&S::srqs_, &SrqObjects::destroy>, true},
      {Op::kOpenXrcDomain, "ibv_open_xrcd", by<&S::xrc_domains_, &OpenXrcDomains::open>},
      {Op::kCloseXrcDomain, "ibv_close_xrcd", by<&S::xrc_domains_, &OpenXrcDomains::close>, true},

      {Op::kCreateQp, "ibv_create_qp", by<&S::qps_, &QpObjects::create>},
      {Op::kModifyQp, "ibv_modify_qp", by<&S::qps_, &QpObjects::modify>},
      {Op::kQueryQp, "ibv_query_qp", by<&S::qps_, &QpObjects::query>},
      {Op::kDestroyQp, "ibv_destroy_qp", by<&S::qps_, &QpObjects::destroy>, true},
      {Op::kOpenQp, "ibv_open_qp", by<&S::qps_, &QpObjects::open>},
      {Op::kCloseQp, "ibv_destroy_qp", by<&S::qps_, &QpObjects::close>, true},
      {Op::kAttachMulticast, "ibv_attach_mcast", by<&S::qps_, &QpObjects::attach_multicast>},
      {Op::kDetachMulticast, "ibv_detach_mcast", by<&S::qps_, &QpObjects::detach_multicast>, true},
      {Op::kTakeMachine, "softhca-run", by<&S::monitor_, &MachineMonitor::take>, false, true},
      {Op::kStartMachine, "softhca-run", by<&S::monitor_, &MachineMonitor::start>, false, true},
      {Op::kCreateAh, "ibv_create_ah", by<&S::ahs_, &AhObjects::create>},
      {Op::kDestroyAh, "ibv_destroy_ah", by<&S::ahs_, &AhObjects::destroy>, true},
  };
};

DeviceSession::RequestKind DeviceSession::kind_of(std::uint32_t operation) {
  static constexpr auto kKinds = [] {
    constexpr auto kLast = std::ranges::max(Requests::kRows, {}, &Requests::Row::operation);
    std::array<RequestKind, static_cast<std::size_t>(kLast.operation) + 1> kinds{};
    for (const Requests::Row& row : Requests::kRows)
      kinds[static_cast<std::size_t>(row.operation)] = {row.verb, row.handler, row.ends,
                                                        row.is_monitors};
    return kinds;
  }();
  return operation < kKinds.size() ? kKinds[operation] : RequestKind{};
}

}  // namespace softhca::control
