// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/datagrams/shared_qp.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

#include "abi/control.hpp"
#include "daemon/base/system_error.hpp"

namespace softhca::engine {
namespace {

constexpr std::size_t kSendsWaiting = 1024;  ///< of clients, until the engine takes them
constexpr std::uint32_t kCompletions = 64;   ///< only failed commands have one
constexpr std::uint32_t kStride = abi::send_stride(1, abi::kMaxInline);

std::uint32_t class_and_direction(std::span<const std::byte, kSelectorBytes> start) {
  return class_selector(static_cast<std::uint8_t>(start[kClassOffset]),
                        (start[kMethodOffset] & kResponse) != std::byte{0});
}

std::uint32_t leading_number(std::span<const std::byte, kSelectorBytes> start) {
  std::uint32_t number = 0;
  for (const std::byte byte : start) number = number << 8 | static_cast<std::uint32_t>(byte);
  return number;
}

}  // namespace

constinit const SharedQueuePair kManagementQueuePair{kGeneralServicesQpn, kGeneralServicesQkey,
                                                     class_and_direction};
constinit const SharedQueuePair kProgramQueuePair{Qpn(abi::kProgramQpn), abi::kProgramQkey,
                                                  leading_number};

std::size_t ServiceEndpoint::memory_bytes() {
  return abi::session_bytes(0) + shm::SendRing::bytes_for(kSends, kStride) +
         shm::CompletionRing::bytes_for(kCompletions);
}

ServiceEndpoint::ServiceEndpoint(SharedQp& service, const SharedQueuePair& which, Tenant& tenant,
                                 SealedMemory mapped)
    : memory(std::move(mapped)),
      session(SessionId{}, tenant, shm::SessionView(memory.base(), 0), VcbId{}) {
  memory.take_fd();
  std::byte* rings = memory.base() + abi::session_bytes(0);
  qp.sq.ring = shm::SendRing(rings, kSends, kStride);
  cq.ring = shm::CompletionRing(rings + shm::SendRing::bytes_for(kSends, kStride), kCompletions);
  cq.session = &session;
  qp.session = &session;
  qp.tenant = &tenant;
  qp.type = QpType::kUd;
  qp.sq.cq = qp.rq.cq = &cq;
  qp.qpn = which.qpn;
  qp.qkey = which.qkey;
  qp.rc.mtu = Datagram::kBytes;
  qp.clients = &service;
  waiting.reserve(kWaiting);
  for (AddressHandle& path : paths) path.session = &session;
}

Expected<std::unique_ptr<SharedQp>> SharedQp::make(Tenant& tenant, const Options& options,
                                                   Time now) {
  auto memory = SealedMemory::create("softhca-datagrams", ServiceEndpoint::memory_bytes());
  if (!memory) return memory.error();
  auto service = std::unique_ptr<SharedQp>(new SharedQp(tenant, options, std::move(*memory), now));
  if (!service->event_) return system_error("eventfd");
  return service;
}

SharedQp::SharedQp(Tenant& tenant, const Options& options, SealedMemory memory, Time now)
    : queue_pair_(options.queue_pair),
      pool_(options.size, options.parameters, now),
      buffers_(
          std::make_unique_for_overwrite<std::byte[]>(options.size.buffers * sizeof(Datagram))),
      arrivals_(options.size.buffers),
      released_(options.size.buffers),
      sends_(kSendsWaiting),
      event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      endpoint_(*this, queue_pair_, tenant, std::move(memory)) {}

void SharedQp::clear_event() {
  std::uint64_t count;
  [[maybe_unused]] const ssize_t got = ::read(event_.get(), &count, sizeof count);
  // Acquires what the engine pushed while an announcement was still pending.
  announced_.exchange(false);
}

const Datagram* SharedQp::front() {
  const std::uint32_t* buffer = arrivals_.front();
  return buffer == nullptr ? nullptr : place_of(*buffer);
}

void SharedQp::pop() { release(take()); }

std::uint32_t SharedQp::take() {
  const std::uint32_t buffer = *arrivals_.front();
  arrivals_.pop();
  return buffer;
}

/// The ring has room for all buffers, so it is never full.
void SharedQp::release(std::uint32_t buffer) { released_.push(buffer); }

management::gsa::ClientKey SharedQp::key_of(const Datagram& datagram) const {
  return client_key(datagram.tenant,
                    queue_pair_.selector(std::span(datagram.payload).first<kSelectorBytes>()));
}

bool SharedQp::send(const Datagram& datagram) {
  const bool has_room = !datagram.gives_way || sends_.size() < kSendsWaiting / 2;
  const bool taken = has_room && sends_.push(datagram);
  if (!taken) counters_.send_refused.add();
  return taken;
}

std::size_t SharedQp::take_back_buffers() {
  std::size_t taken = 0;
  for (; const std::uint32_t* buffer = released_.front(); ++taken) {
    pool_.release(*buffer);
    released_.pop();
  }
  return taken;
}

void SharedQp::hand_over(std::uint32_t buffer) {
  counters_.received.add();
  arrivals_.push(buffer);
  endpoint_.news = true;
}

void SharedQp::announce() {
  endpoint_.news = false;
  if (announced_.exchange(true)) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t put = ::write(event_.get(), &one, sizeof one);
}

}  // namespace softhca::engine
