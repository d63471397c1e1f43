#include "daemon/engine/datagram_service.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "daemon/base/system_error.hpp"

namespace softhca::engine {
namespace {

constexpr std::size_t kSendsWaiting = 1024;  ///< of clients, until the engine takes them
constexpr std::uint32_t kCompletions = 64;   ///< only failed commands have one
constexpr std::uint32_t kStride = abi::send_stride(1, abi::kMaxInline);

}  // namespace

Expected<std::unique_ptr<DatagramService>> DatagramService::make(Tenant& tenant,
                                                                 const Options& options, Time now) {
  auto memory = SealedMemory::create(
      "softhca-datagrams", abi::session_bytes(0) + shm::SendRing::bytes_for(kSends, kStride) +
                               shm::CompletionRing::bytes_for(kCompletions));
  if (!memory) return memory.error();
  auto service = std::unique_ptr<DatagramService>(
      new DatagramService(tenant, options, std::move(*memory), now));
  if (!service->event_) return system_error("eventfd");
  return service;
}

DatagramService::DatagramService(Tenant& tenant, const Options& options, SealedMemory memory,
                                 Time now)
    : pool_(options.size, options.parameters, now),
      buffers_(options.size.buffers),
      arrivals_(options.size.buffers),
      released_(options.size.buffers),
      sends_(kSendsWaiting),
      event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      memory_(std::move(memory)),
      session_(SessionId{}, tenant, shm::SessionView(memory_.base(), 0), VcbId{}),
      qp_(kSends) {
  memory_.close_fd();
  std::byte* rings = memory_.base() + abi::session_bytes(0);
  qp_.send_ring = shm::SendRing(rings, kSends, kStride);
  cq_.ring = shm::CompletionRing(rings + shm::SendRing::bytes_for(kSends, kStride), kCompletions);
  cq_.session = &session_;
  qp_.session = &session_;
  qp_.tenant = &tenant;
  qp_.type = QpType::kUd;
  qp_.send_cq = qp_.receive_cq = &cq_;
  qp_.qkey = options.qkey;
  qp_.rc.mtu = Datagram::kBytes;
  qp_.clients = this;
  waiting_.reserve(kWaiting);
  for (AddressHandle& path : paths_) path.session = &session_;
}

void DatagramService::clear_event() {
  std::uint64_t count;
  [[maybe_unused]] const ssize_t got = ::read(event_.get(), &count, sizeof count);
  announced_.store(false);
}

const Datagram* DatagramService::front() {
  const std::uint32_t* buffer = arrivals_.front();
  return buffer == nullptr ? nullptr : &buffers_[*buffer];
}

/// As many can be released as there are buffers, so there is room.
void DatagramService::pop() {
  released_.push(*arrivals_.front());
  arrivals_.pop();
}

bool DatagramService::send(const Datagram& datagram) {
  const bool taken = sends_.push(datagram);
  if (!taken) counters_.send_refused.add();
  return taken;
}

/// One write for all that came since the clients looked last.
void DatagramService::announce() {
  news_ = false;
  if (announced_.exchange(true)) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = ::write(event_.get(), &one, sizeof one);
}

}  // namespace softhca::engine
