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

      {Op::kAllocPd, by<&S::pds_, &ProtectionDomains::alloc>},
      {Op::kDeallocPd, by<&S::pds_, &ProtectionDomains::dealloc>},
      {Op::kImportPd, by<&S::pds_, &ProtectionDomains::import>},
      {Op::kShareContext, by<&S::pds_, &ProtectionDomains::share_context>},
      {Op::kJoinContext, by<&S::pds_, &ProtectionDomains::join_context>},

      {Op::kAllocShared, by<&S::buffers_, &SharedBuffers::alloc>},
      {Op::kFreeShared, by<&S::buffers_, &SharedBuffers::free>},
      {Op::kOfferMemory, by_session<&S::offer_memory>},
      {Op::kNameShared, by<&S::buffers_, &SharedBuffers::name>},
      {Op::kJoinShared, by<&S::buffers_, &SharedBuffers::join>},
      {Op::kRegisterMr, by<&S::regions_, &MemoryRegions::register_mr>},
      {Op::kReregisterMr, by<&S::regions_, &MemoryRegions::reregister_mr>},
      {Op::kDeregisterMr, by<&S::regions_, &MemoryRegions::deregister_mr>},
      {Op::kAllocNullMr, by<&S::regions_, &MemoryRegions::alloc_null_mr>},
      {Op::kImportMr, by<&S::regions_, &MemoryRegions::import_mr>},
      {Op::kAllocWindow, by<&S::windows_, &MemoryWindows::alloc>},
      {Op::kDeallocWindow, by<&S::windows_, &MemoryWindows::dealloc>},

      {Op::kCreateChannel, by<&S::cqs_, &CompletionQueues::create_channel>},
      {Op::kCreateCq, by<&S::cqs_, &CompletionQueues::create>},
      {Op::kResizeCq, by<&S::cqs_, &CompletionQueues::resize>},
      {Op::kModifyCq, by<&S::cqs_, &CompletionQueues::modify>},
      {Op::kDestroyCq, by<&S::cqs_, &CompletionQueues::destroy>},

      {Op::kCreateSrq, by<&S::srqs_, &SharedReceiveQueues::create>},
      {Op::kModifySrq, by<&S::srqs_, &SharedReceiveQueues::modify>},
      {Op::kResizeSrq, by<&S::srqs_, &SharedReceiveQueues::resize>},
      {Op::kQuerySrq, by<&S::srqs_, &SharedReceiveQueues::query>},
      {Op::kDestroySrq, by<&S::srqs_, &SharedReceiveQueues::destroy>},
      {Op::kOpenXrcDomain, by<&S::xrc_domains_, &OpenXrcDomains::open>},
      {Op::kCloseXrcDomain, by<&S::xrc_domains_, &OpenXrcDomains::close>},

      {Op::kCreateQp, by<&S::qps_, &QueuePairs::create>},
      {Op::kModifyQp, by<&S::qps_, &QueuePairs::modify>},
      {Op::kQueryQp, by<&S::qps_, &QueuePairs::query>},
      {Op::kDestroyQp, by<&S::qps_, &QueuePairs::destroy>},
      {Op::kOpenQp, by<&S::qps_, &QueuePairs::open>},
      {Op::kCloseQp, by<&S::qps_, &QueuePairs::close>},
      {Op::kAttachMulticast, by<&S::qps_, &QueuePairs::attach_multicast>},
      {Op::kDetachMulticast, by<&S::qps_, &QueuePairs::detach_multicast>},
      {Op::kCreateAh, by<&S::ahs_, &AddressHandles::create>},
      {Op::kDestroyAh, by<&S::ahs_, &AddressHandles::destroy>},
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
