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
    Handler handler;
  };
  using Op = abi::Operation;
  using S = DeviceSession;
  static constexpr Row kRows[] = {
      {Op::kHello, by_session<&S::hello>},
      {Op::kQueryDevice, by_session<&S::query_device>},
      {Op::kQueryPort, by_session<&S::query_port>},

      {Op::kAllocPd, by<&S::pds_, &PdObjects::alloc>},
      {Op::kDeallocPd, by<&S::pds_, &PdObjects::dealloc>},
      {Op::kImportPd, by<&S::pds_, &PdObjects::import>},
      {Op::kShareContext, by<&S::pds_, &PdObjects::share_context>},
      {Op::kJoinContext, by<&S::pds_, &PdObjects::join_context>},

      {Op::kAllocShared, by<&S::buffers_, &SharedBuffers::alloc>},
      {Op::kFreeShared, by<&S::buffers_, &SharedBuffers::free>},
      {Op::kOfferMemory, by_session<&S::offer_memory>},
      {Op::kNameShared, by<&S::buffers_, &SharedBuffers::name>},
      {Op::kJoinShared, by<&S::buffers_, &SharedBuffers::join>},
      {Op::kRegisterMr, by<&S::regions_, &MrObjects::register_mr>},
      {Op::kReregisterMr, by<&S::regions_, &MrObjects::reregister_mr>},
      {Op::kDeregisterMr, by<&S::regions_, &MrObjects::deregister_mr>},
      {Op::kAllocNullMr, by<&S::regions_, &MrObjects::alloc_null_mr>},
      {Op::kImportMr, by<&S::regions_, &MrObjects::import_mr>},
      {Op::kAllocWindow, by<&S::windows_, &MwObjects::alloc>},
      {Op::kDeallocWindow, by<&S::windows_, &MwObjects::dealloc>},

      {Op::kCreateChannel, by<&S::cqs_, &CqObjects::create_channel>},
      {Op::kCreateCq, by<&S::cqs_, &CqObjects::create>},
      {Op::kResizeCq, by<&S::cqs_, &CqObjects::resize>},
      {Op::kModifyCq, by<&S::cqs_, &CqObjects::modify>},
      {Op::kDestroyCq, by<&S::cqs_, &CqObjects::destroy>},

      {Op::kCreateSrq, by<&S::srqs_, &SrqObjects::create>},
      {Op::kModifySrq, by<&S::srqs_, &SrqObjects::modify>},
      {Op::kResizeSrq, by<&S::srqs_, &SrqObjects::resize>},
      {Op::kQuerySrq, by<&S::srqs_, &SrqObjects::query>},
      {Op::kDestroySrq, by<&S::srqs_, &SrqObjects::destroy>},
      {Op::kOpenXrcDomain, by<&S::xrc_domains_, &OpenXrcDomains::open>},
      {Op::kCloseXrcDomain, by<&S::xrc_domains_, &OpenXrcDomains::close>},

      {Op::kCreateQp, by<&S::qps_, &QpObjects::create>},
      {Op::kModifyQp, by<&S::qps_, &QpObjects::modify>},
      {Op::kQueryQp, by<&S::qps_, &QpObjects::query>},
      {Op::kDestroyQp, by<&S::qps_, &QpObjects::destroy>},
      {Op::kOpenQp, by<&S::qps_, &QpObjects::open>},
      {Op::kCloseQp, by<&S::qps_, &QpObjects::close>},
      {Op::kAttachMulticast, by<&S::qps_, &QpObjects::attach_multicast>},
      {Op::kDetachMulticast, by<&S::qps_, &QpObjects::detach_multicast>},
      {Op::kCreateAh, by<&S::ahs_, &AhObjects::create>},
      {Op::kDestroyAh, by<&S::ahs_, &AhObjects::destroy>},
  };
};

DeviceSession::Handler DeviceSession::handler_of(std::uint32_t operation) {
  static constexpr auto kHandlers = [] {
    constexpr auto kLast = std::ranges::max(Requests::kRows, {}, &Requests::Row::operation);
    std::array<Handler, static_cast<std::size_t>(kLast.operation) + 1> handlers{};
    for (const Requests::Row& row : Requests::kRows)
      handlers[static_cast<std::size_t>(row.operation)] = row.handler;
    return handlers;
  }();
  return operation < kHandlers.size() ? kHandlers[operation] : nullptr;
}

}  // namespace softhca::control
