#include "daemon/control/session.hpp"

#include <array>
#include <cerrno>

namespace softhca::control {
namespace {

// Of one process: ring memory, registered memory shared in place, and what of the latter is kept
// for the next registration once idle.
constexpr std::size_t kRingBudget = std::size_t{1} << 30;
constexpr std::size_t kSharedBudget = std::size_t{1} << 40;
constexpr std::size_t kIdleSharedBudget = std::size_t{256} << 20;

// One process must not keep the others of its tenant from being served.
constexpr int kRequestsPerTurn = 16;

}  // namespace

Session::Session(Adapter& adapter, engine::Tenant& tenant, UniqueFd socket, PeerIdentity peer,
                 UniqueFd pidfd)
    : adapter_(adapter),
      tenant_(tenant),
      socket_(std::move(socket)),
      peer_(peer),
      pidfd_(std::move(pidfd)),
      segments_(kRingBudget),
      buffers_(kSharedBudget, kIdleSharedBudget),
      pds_(adapter.config.pools.protection_domains),
      channels_(adapter.config.pools.completion_queues),
      cqs_(adapter.config.pools.completion_queues),
      srqs_(adapter.config.pools.shared_receive_queues),
      mrs_(adapter.config.pools.memory_regions),
      ahs_(adapter.config.pools.address_handles) {}

Session::~Session() {
  if (engine_session_) {
    adapter_.worker.run([this](engine::Engine& engine) {
      for (auto& [qpn, qp] : qps_) engine.remove(qp->engine);
      ahs_.for_each([&](std::uint32_t, Ah& ah) { engine.remove_address_handle(ah.handle); });
      cqs_.for_each([&](std::uint32_t, Cq& cq) { engine.remove(cq.engine); });
      mrs_.for_each([&](std::uint32_t, Mr& mr) {
        tenant_.counters.memory_regions.subtract();
        tenant_.counters.registered_bytes.subtract(mr.length);
      });
      adapter_.worker.unwatch(*engine_session_);
      engine.remove(*engine_session_);
    });
  }
  adapter_.give_back_vcbs(tenant_, vcbs_);
}

bool Session::serve() {
  std::array<std::byte, abi::kMaxRecord> buffer;
  for (int i = 0; i < kRequestsPerTurn; ++i) {
    std::size_t length = 0;
    switch (receive_record(socket_.get(), buffer, length)) {
      case ReceiveResult::kNothing:
        return true;
      case ReceiveResult::kClosed:
        return false;
      case ReceiveResult::kRecord:
        if (!answer({buffer.data(), length})) return false;
    }
  }
  return true;
}

/// False: the peer breaks the protocol or does not take the answer.
bool Session::answer(std::span<const std::byte> record) {
  abi::RequestHeader header;
  if (record.size() < sizeof header) return false;
  std::memcpy(&header, record.data(), sizeof header);
  const Handler handler = handler_of(header.operation);
  const bool hello = header.operation == static_cast<std::uint32_t>(abi::Operation::kHello);
  if (handler == nullptr || hello == greeted_) return false;

  Reply reply;
  const int error = (this->*handler)(RequestBody(record.subspan(sizeof header)), reply);
  std::array<std::byte, 1024> out;
  const abi::ReplyHeader reply_header{header.tag, error};
  std::memcpy(out.data(), &reply_header, sizeof reply_header);
  std::size_t length = sizeof reply_header;
  if (error == 0) {
    std::memcpy(out.data() + length, reply.bytes().data(), reply.bytes().size());
    length += reply.bytes().size();
  }
  const bool sent =
      send_record(socket_.get(), {out.data(), length},
                  error == 0 ? std::span<const int>(reply.fds()) : std::span<const int>());
  if (error == 0 && sent)
    for (const std::uint32_t segment : announced_) segments_.announced(segment);
  announced_.clear();
  if (announced_buffer_) buffers_.announced(*announced_buffer_);
  announced_buffer_.reset();
  reply_fd_.reset();
  async_peer_.reset();
  return sent;
}

Session::Handler Session::handler_of(std::uint32_t operation) {
  switch (static_cast<abi::Operation>(operation)) {
    case abi::Operation::kHello:
      return &Session::hello;
    case abi::Operation::kQueryDevice:
      return &Session::query_device;
    case abi::Operation::kQueryPort:
      return &Session::query_port;
    case abi::Operation::kAllocPd:
      return &Session::alloc_pd;
    case abi::Operation::kDeallocPd:
      return &Session::dealloc_pd;
    case abi::Operation::kAllocShared:
      return &Session::alloc_shared;
    case abi::Operation::kFreeShared:
      return &Session::free_shared;
    case abi::Operation::kRegisterMr:
      return &Session::register_mr;
    case abi::Operation::kDeregisterMr:
      return &Session::deregister_mr;
    case abi::Operation::kCreateChannel:
      return &Session::create_channel;
    case abi::Operation::kCreateCq:
      return &Session::create_cq;
    case abi::Operation::kResizeCq:
      return &Session::resize_cq;
    case abi::Operation::kDestroyCq:
      return &Session::destroy_cq;
    case abi::Operation::kCreateSrq:
      return &Session::create_srq;
    case abi::Operation::kModifySrq:
      return &Session::modify_srq;
    case abi::Operation::kQuerySrq:
      return &Session::query_srq;
    case abi::Operation::kDestroySrq:
      return &Session::destroy_srq;
    case abi::Operation::kCreateQp:
      return &Session::create_qp;
    case abi::Operation::kModifyQp:
      return &Session::modify_qp;
    case abi::Operation::kQueryQp:
      return &Session::query_qp;
    case abi::Operation::kDestroyQp:
      return &Session::destroy_qp;
    case abi::Operation::kCreateAh:
      return &Session::create_ah;
    case abi::Operation::kDestroyAh:
      return &Session::destroy_ah;
  }
  return nullptr;
}

int Session::allocate_ring(std::size_t bytes, Reply& reply, abi::RingLocation& location,
                           std::byte*& base, std::uint32_t& new_segment) {
  const auto allocation = segments_.allocate(bytes);
  if (!allocation) return ENOMEM;
  location = allocation->location;
  base = allocation->base;
  new_segment = allocation->new_segment ? 1 : 0;
  if (allocation->new_segment) {
    reply.attach(allocation->fd);
    announced_.push_back(location.segment);
  }
  return 0;
}

}  // namespace softhca::control
