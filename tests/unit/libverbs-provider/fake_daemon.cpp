// SPDX-License-Identifier: Apache-2.0

#include "tests/unit/libverbs-provider/fake_daemon.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <span>

namespace softhca::provider::test {
namespace {

int make_file(std::size_t bytes) {
  const int fd = ::memfd_create("fake", MFD_CLOEXEC);
  EXPECT_EQ(::ftruncate(fd, static_cast<off_t>(bytes)), 0);
  return fd;
}

void drop(const FakeMemory& memory) {
  if (memory.base != nullptr) ::munmap(memory.base, memory.place.bytes);
  if (memory.fd >= 0) ::close(memory.fd);
}

template <class T>
T read_as(const FakeDaemon::Request& request) {
  T body{};
  EXPECT_GE(request.body.size(), sizeof body);
  std::memcpy(&body, request.body.data(), std::min(sizeof body, request.body.size()));
  return body;
}

template <class T>
void write_as(std::vector<std::byte>& reply, const T& body) {
  reply.resize(sizeof body);
  std::memcpy(reply.data(), &body, sizeof body);
}

void send_reply(int fd, const abi::ReplyHeader& header, const std::vector<std::byte>& body,
                const std::vector<int>& fds) {
  iovec parts[] = {{const_cast<abi::ReplyHeader*>(&header), sizeof header},
                   {const_cast<std::byte*>(body.data()), body.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 3)] = {};
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(c), fds.data(), fds.size() * sizeof(int));
  }
  ::sendmsg(fd, &message, MSG_NOSIGNAL);
}

}  // namespace

void FakeCq::push(abi::CompletionElement* element, std::uint32_t source_qp) {
  auto* elements =
      reinterpret_cast<abi::CompletionElement*>(ring.base + sizeof(abi::CompletionRingHeader));
  abi::CompletionElement& slot = elements[producer & (ring.entries - 1)];
  std::memcpy(static_cast<void*>(&slot), element, offsetof(abi::CompletionElement, owner));
  slot.owner.store(source_qp | abi::phase_of(producer, ring.entries), std::memory_order_release);
  ++producer;
}

abi::ReceiveElement FakeReceiveQueue::element(std::uint32_t at) {
  abi::ReceiveElement element;
  std::memcpy(&element,
              ring.base + sizeof(abi::ReceiveRingHeader) + (at & (ring.entries - 1)) * stride,
              sizeof element);
  return element;
}

void FakeSrq::move_to(FakeRing ring) {
  const auto slot_in = [&](const FakeRing& in, std::uint32_t at) {
    return in.base + sizeof(abi::ReceiveRingHeader) + (at & (in.entries - 1)) * queue.stride;
  };
  const std::uint32_t producer = queue.producer();
  for (std::uint32_t at = taken; at != producer; ++at)
    std::memcpy(slot_in(ring, at), slot_in(queue.ring, at), queue.stride);
  reinterpret_cast<abi::ReceiveRingHeader*>(ring.base)->producer.store(producer);
  queue.ring = ring;
}

abi::ScatterGather FakeReceiveQueue::entry(std::uint32_t at, std::uint32_t i) {
  abi::ScatterGather entry;
  std::memcpy(&entry,
              ring.base + sizeof(abi::ReceiveRingHeader) + (at & (ring.entries - 1)) * stride +
                  sizeof(abi::ReceiveElement) + i * sizeof entry,
              sizeof entry);
  return entry;
}

abi::CommandHeader FakeQp::command(std::uint32_t sequence) {
  abi::CommandHeader header;
  std::memcpy(&header, send.base + (sequence & (send.entries - 1)) * send_stride, sizeof header);
  return header;
}

const std::byte* FakeQp::payload(std::uint32_t sequence) {
  return send.base + (sequence & (send.entries - 1)) * send_stride + abi::kCommandHeaderBytes;
}

// --- memory ------------------------------------------------------------------------------------

FakeMemories::FakeMemories() : machine_fd_(make_file(std::size_t{64} << 30)) {}

FakeMemories::~FakeMemories() { ::close(machine_fd_); }

FakeMemory FakeMemories::make(std::size_t bytes) {
  FakeMemory memory{-1, nullptr, {0, bytes}};
  if (is_machine()) {
    memory.fd = ::fcntl(machine_fd_, F_DUPFD_CLOEXEC, 0);
    memory.place.offset = used_;
    used_ += bytes;
  } else {
    memory.fd = make_file(bytes);
  }
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory.fd,
                      static_cast<off_t>(memory.place.offset));
  EXPECT_NE(base, MAP_FAILED);
  memory.base = static_cast<std::byte*>(base);
  return memory;
}

// --- session ---------------------------------------------------------------------------------

FakeSession::FakeSession(int connection, std::uint32_t vcbs, FakeMemories& memories)
    : connection_(connection) {
  segment_ = memories.make(kSegmentBytes);
  if (memories.is_machine()) {
    memory_ = memories.make(abi::kVcbOffset);
    separate_vcbs_ = memories.make(std::max(vcbs, 1u) * sizeof(abi::VcbPage));
    vcbs_ = separate_vcbs_.base;
  } else {
    memory_ = memories.make(abi::session_bytes(vcbs));
    vcbs_ = memory_.base + abi::kVcbOffset;
  }
  header().magic = abi::kSessionMagic;
  header().version = abi::kAbiVersion;
  header().vcbs = vcbs;
  if (vcbs != 0) header().granted = ~std::uint64_t{0} >> (64 - std::min(vcbs, 64u));
  wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, async_fds_), 0);
}

FakeSession::~FakeSession() {
  for (const FakeMemory& memory : {memory_, separate_vcbs_, segment_}) drop(memory);
  for (const int fd : {connection_, wake_fd_, async_fds_[0], offer_fd_})
    if (fd >= 0) ::close(fd);
  if (async_fds_[1] >= 0) ::close(async_fds_[1]);
  for (const auto& [handle, fd] : channels) ::close(fd);
  for (const auto& [handle, memory] : shared) drop(memory);
}

std::uint64_t FakeSession::wakes() {
  std::uint64_t value = 0;
  return ::read(wake_fd_, &value, sizeof value) == sizeof value ? value : 0;
}

void FakeSession::send_completion_event(FakeCq& cq) {
  ASSERT_EQ(channels.count(cq.channel), 1u);
  EXPECT_EQ(::send(channels[cq.channel], &cq.user_handle, sizeof cq.user_handle, MSG_NOSIGNAL),
            static_cast<ssize_t>(sizeof cq.user_handle));
}

void FakeSession::send_async_event(std::uint64_t element, std::uint32_t type) {
  const struct {
    std::uint64_t element;
    std::uint32_t type;
    std::uint32_t reserved;
  } record{element, type, 0};
  EXPECT_EQ(::send(async_fds_[0], &record, sizeof record, MSG_NOSIGNAL),
            static_cast<ssize_t>(sizeof record));
}

abi::RingLocation FakeSession::allocate(std::uint64_t bytes, bool& announce) {
  announce = segment_used_ == 0;
  const std::uint64_t offset = segment_used_;
  segment_used_ += (bytes + 63) / 64 * 64;
  EXPECT_LE(segment_used_, kSegmentBytes);
  return {7, static_cast<std::uint32_t>(bytes), offset};
}

// --- daemon ----------------------------------------------------------------------------------

FakeDaemon::FakeDaemon(const std::string& socket_path) {
  std::strcpy(device_.firmware, "fake 1");
  device_.node_guid = 0x1122334455667788;
  device_.sys_image_guid = 0x99;
  device_.max_mr_size = 1ull << 40;
  device_.vendor_id = 0x5f7;
  device_.vendor_part_id = 3;
  device_.hw_version = 1;
  device_.max_qp = 100;
  device_.max_qp_wr = 1024;
  device_.max_sge = 16;
  device_.max_cq = 64;
  device_.max_cqe = 4096;
  device_.max_mr = 100;
  device_.max_pd = 10;
  device_.max_ah = 10;
  device_.max_srq = 10;
  device_.max_srq_wr = 4096;
  device_.max_srq_sge = 4;
  device_.max_rd_atomic = 16;
  device_.max_inline = 256;
  device_.completion_vectors = 2;
  device_.ports = 2;
  device_.capabilities = abi::kCanReachProcess | abi::kCanResizeSrq;

  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, socket_path.c_str());
  listener_ = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(listener_, 8), 0);
  stop_fd_ = ::eventfd(0, EFD_CLOEXEC);
  thread_ = std::thread([this] { run(); });
}

FakeDaemon::~FakeDaemon() {
  const std::uint64_t one = 1;
  EXPECT_EQ(::write(stop_fd_, &one, sizeof one), static_cast<ssize_t>(sizeof one));
  thread_.join();
  ::close(listener_);
  ::close(stop_fd_);
}

void FakeDaemon::reset() {
  const std::lock_guard guard(mutex_);
  sessions_.clear();
  requests_.clear();
  failures_.clear();
  spoils_.clear();
  vcbs_ = 8;
  repeats_ = false;
  memories_.be_machine(false);
}

void FakeDaemon::be_machine() {
  const std::lock_guard guard(mutex_);
  memories_.be_machine(true);
}

void FakeDaemon::hang_up() {
  const std::lock_guard guard(mutex_);
  for (auto& session : sessions_) {
    ::close(session->connection_);
    session->connection_ = -1;
    ::close(session->async_fds_[0]);
    session->async_fds_[0] = -1;
    if (session->channel != nullptr) session->channel->hang_up();
  }
}

void FakeDaemon::fail_next(abi::Operation operation, int error) {
  const std::lock_guard guard(mutex_);
  failures_[operation] = error;
}

void FakeDaemon::spoil_next(abi::Operation operation, Spoil spoil) {
  const std::lock_guard guard(mutex_);
  spoils_[operation] = std::move(spoil);
}

FakeSession& FakeDaemon::session() {
  const std::lock_guard guard(mutex_);
  return *sessions_.back();
}

std::size_t FakeDaemon::session_count() {
  const std::lock_guard guard(mutex_);
  return sessions_.size();
}

std::vector<std::byte> FakeDaemon::last_body(abi::Operation operation) {
  const std::lock_guard guard(mutex_);
  for (auto request = requests_.rbegin(); request != requests_.rend(); ++request)
    if (request->operation == operation) return request->body;
  ADD_FAILURE() << "no request " << static_cast<unsigned>(operation);
  return {};
}

std::size_t FakeDaemon::count(abi::Operation operation) {
  const std::lock_guard guard(mutex_);
  std::size_t count = 0;
  for (const Request& request : requests_) count += request.operation == operation ? 1 : 0;
  return count;
}

bool FakeDaemon::had(abi::Operation operation, const abi::HandleBody& body) {
  const std::lock_guard guard(mutex_);
  return std::any_of(requests_.begin(), requests_.end(), [&](const Request& request) {
    return request.operation == operation && request.body.size() == sizeof body &&
           std::memcmp(request.body.data(), &body, sizeof body) == 0;
  });
}

// --- event channels --------------------------------------------------------------------------

std::uint32_t FakeDaemon::newest_channel() {
  const std::lock_guard guard(mutex_);
  return last_channel_;
}

FakeEventChannel* FakeDaemon::find_channel(std::uint32_t number) {
  for (const auto& session : sessions_)
    if (session->channel != nullptr && session->channel->number() == number)
      return session->channel.get();
  return nullptr;
}

void FakeDaemon::post_event(std::uint32_t channel, const kernel::rdma_ucm_event_resp& event) {
  const std::lock_guard guard(mutex_);
  FakeEventChannel* found = find_channel(channel);
  ASSERT_NE(found, nullptr) << channel;
  found->post(event);
}

abi::ConnectionCommandRequest FakeDaemon::last_command(std::uint32_t command,
                                                       std::vector<std::byte>& body) {
  const std::lock_guard guard(mutex_);
  for (auto request = requests_.rbegin(); request != requests_.rend(); ++request) {
    if (request->operation != abi::Operation::kConnectionCommand) continue;
    const auto head = read_as<abi::ConnectionCommandRequest>(*request);
    if (head.command != command) continue;
    body.assign(request->body.begin() + sizeof head, request->body.end());
    return head;
  }
  ADD_FAILURE() << "no command " << command;
  return {};
}

int FakeDaemon::open_channel(FakeSession& session, std::vector<std::byte>& reply,
                             std::vector<int>& fds) {
  session.channel = std::make_unique<FakeEventChannel>(++last_channel_);
  write_as(reply, abi::HandleBody{last_channel_, 0});
  fds = {session.channel->take_program_end()};
  return 0;
}

int FakeDaemon::carry_out(FakeSession& session, const Request& request,
                          std::vector<std::byte>& reply) {
  const auto head = read_as<abi::ConnectionCommandRequest>(request);
  std::vector<std::byte> response;
  bool emptied = false;
  const int error =
      session.channel->carry_out(head.command, std::span(request.body).subspan(sizeof head),
                                 find_channel(head.channel), response, emptied);
  if (error != 0) return error;
  write_as(reply, abi::ConnectionCommandReply{static_cast<std::uint32_t>(response.size()),
                                              emptied ? 1u : 0u});
  reply.insert(reply.end(), response.begin(), response.end());
  return 0;
}

// --- serving ---------------------------------------------------------------------------------

void FakeDaemon::run() {
  for (;;) {
    std::vector<pollfd> fds = {{stop_fd_, POLLIN, 0}, {listener_, POLLIN, 0}};
    {
      const std::lock_guard guard(mutex_);
      for (const auto& session : sessions_) fds.push_back({session->connection_, POLLIN, 0});
    }
    ::poll(fds.data(), fds.size(), 10);  // sessions come and go under reset()
    if (fds[0].revents != 0) return;
    const std::lock_guard guard(mutex_);
    if ((fds[1].revents & POLLIN) != 0)
      sessions_.push_back(std::make_unique<FakeSession>(
          ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC), vcbs_, memories_));
    for (std::size_t i = 0; i < sessions_.size();) {
      pollfd state{sessions_[i]->connection_, POLLIN, 0};
      if (state.fd >= 0 && ::poll(&state, 1, 0) > 0) {
        char probe;
        if (::recv(state.fd, &probe, 1, MSG_PEEK | MSG_DONTWAIT) <= 0) {
          sessions_.erase(sessions_.begin() + static_cast<std::ptrdiff_t>(i));
          continue;
        }
        serve(*sessions_[i]);
      }
      ++i;
    }
  }
}

void FakeDaemon::serve(FakeSession& session) {
  std::byte buffer[abi::kMaxRecord];
  const ssize_t got = ::recv(session.connection_, buffer, sizeof buffer, MSG_DONTWAIT);
  abi::RequestHeader header{};
  ASSERT_GE(got, static_cast<ssize_t>(sizeof header));
  std::memcpy(&header, buffer, sizeof header);
  const Request request{static_cast<abi::Operation>(header.operation),
                        {buffer + sizeof header, buffer + got}};
  requests_.push_back(request);
  abi::ReplyHeader reply{header.tag, 0};
  std::vector<std::byte> body;
  std::vector<int> fds;
  if (const auto failure = failures_.find(request.operation); failure != failures_.end()) {
    reply.error = failure->second;
    failures_.erase(failure);
  } else {
    reply.error = handle(session, request, body, fds);
    if (memories_.is_machine()) append_places(session, request.operation, fds, body);
  }
  if (const auto spoil = spoils_.find(request.operation); spoil != spoils_.end()) {
    spoil->second(reply, body, fds);
    spoils_.erase(spoil);
  }
  for (int i = 0; i < (repeats_ ? 2 : 1); ++i) send_reply(session.connection_, reply, body, fds);
  if (request.operation == abi::Operation::kHello) {
    ::close(session.async_fds_[1]);
    session.async_fds_[1] = -1;
  }
  if (request.operation == abi::Operation::kCreateChannel ||
      request.operation == abi::Operation::kOfferMemory ||
      request.operation == abi::Operation::kOpenEventChannel)
    for (const int fd : fds) ::close(fd);
}

/// Appends where the memory is that the first descriptor names, if it names memory.
void FakeDaemon::append_places(FakeSession& session, abi::Operation operation,
                               const std::vector<int>& fds, std::vector<std::byte>& reply) {
  if (fds.empty()) return;
  abi::MemoryPlaces places{};
  if (operation == abi::Operation::kHello)
    places = {session.memory_.place, session.separate_vcbs_.place};
  else if (operation == abi::Operation::kAllocShared)
    places.memory = session.shared.rbegin()->second.place;
  else if (fds.front() == session.segment_.fd)
    places.memory = session.segment_.place;
  if (places.memory.bytes == 0) return;
  const auto bytes = std::as_bytes(std::span(&places, 1));
  reply.insert(reply.end(), bytes.begin(), bytes.end());
}

int FakeDaemon::handle(FakeSession& session, const Request& request, std::vector<std::byte>& reply,
                       std::vector<int>& fds) {
  using abi::Operation;
  bool announce = false;
  const auto segment = [&] {
    if (announce) fds.push_back(session.segment_.fd);
    session.just_announced_ = announce;
    return announce ? 1u : 0u;
  };
  const bool given_up = session.just_announced_;
  session.just_announced_ = false;
  switch (request.operation) {
    case Operation::kDestroyCq:
    case Operation::kDestroySrq:
    case Operation::kDestroyQp:
      if (given_up) session.segment_used_ = 0;  // the process may not have mapped the segment
      return 0;
    case Operation::kHello:
      EXPECT_EQ(read_as<abi::HelloRequest>(request).magic, abi::kSessionMagic);
      write_as(reply, abi::HelloReply{session.header().vcbs, 1, 0, 0});
      fds = {session.memory_.fd, session.wake_fd_, session.async_fds_[1]};
      return 0;
    case Operation::kQueryDevice:
      write_as(reply, device_);
      return 0;
    case Operation::kQueryPort:
      write_as(reply, abi::PortReply{IBV_PORT_ACTIVE, IBV_MTU_4096, IBV_MTU_1024, 2, 1u << 30, 3, 4,
                                     32, 2, 0});
      return 0;
    case Operation::kAllocPd:
    case Operation::kCreateAh:
    case Operation::kOpenXrcDomain:
      write_as(reply, abi::HandleBody{session.next_handle_++, 0});
      return 0;
    case Operation::kAllocShared: {
      const FakeMemory memory = memories_.make(read_as<abi::AllocSharedRequest>(request).bytes);
      const std::uint32_t handle =
          memories_.is_machine() ? static_cast<std::uint32_t>(memory.place.offset / abi::kPageBytes)
                                 : session.next_handle_++;
      session.shared[handle] = memory;
      fds = {memory.fd};
      write_as(reply, abi::AllocSharedReply{handle, 0, 0});
      return 0;
    }
    case Operation::kOfferMemory: {
      int ends[2];
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
      session.offer_fd_ = ends[0];
      fds = {ends[1]};
      return 0;
    }
    case Operation::kRegisterMr: {
      const std::uint32_t handle = session.next_handle_++;
      write_as(reply, abi::RegisterMrReply{handle, handle << 8, handle << 8 | 1, 0});
      return 0;
    }
    case Operation::kAllocNullMr:
      write_as(reply, abi::RegisterMrReply{session.next_handle_++, 0x4700, 0, 0});
      return 0;
    case Operation::kReregisterMr:
      write_as(reply, abi::RegisterMrReply{});
      return 0;
    case Operation::kShareContext:
      write_as(reply, kToken);
      return 0;
    case Operation::kImportMr: {
      const std::uint32_t handle = read_as<abi::HandleBody>(request).handle;
      write_as(reply, abi::ImportMrReply{100, 0x1000, handle << 8 | 1, handle << 8 | 2,
                                         IBV_ACCESS_ON_DEMAND, 0});
      return 0;
    }
    case Operation::kAllocWindow:
      write_as(reply, abi::AllocWindowReply{session.next_handle_++, 0x80000100});
      return 0;
    case Operation::kCreateChannel: {
      int pair[2];
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
      const std::uint32_t handle = session.next_handle_++;
      session.channels[handle] = pair[0];
      fds = {pair[1]};
      write_as(reply, abi::HandleBody{handle, 0});
      return 0;
    }
    case Operation::kCreateCq: {
      const auto body = read_as<abi::CreateCqRequest>(request);
      const std::uint32_t entries = std::bit_ceil(body.entries);
      const abi::RingLocation ring = session.allocate(64 + 32ull * entries, announce);
      const std::uint32_t handle = session.next_handle_++;
      session.cqs[handle] = {body.user_handle, body.channel, {session.at(ring), entries}, 0};
      write_as(reply, abi::CreateCqReply{handle, entries, ring, segment(), 0});
      return 0;
    }
    case Operation::kResizeCq: {
      const auto body = read_as<abi::ResizeCqRequest>(request);
      FakeCq& cq = session.cqs[body.handle];
      const std::uint32_t entries = std::bit_ceil(body.entries);
      const abi::RingLocation ring = session.allocate(64 + 32ull * entries, announce);
      const std::uint32_t arm = cq.header().arm.exchange(abi::kArmNone);
      cq.ring = {session.at(ring), entries};
      cq.header().arm.store(arm);
      cq.producer = 0;
      write_as(reply, abi::CreateCqReply{body.handle, entries, ring, segment(), 0});
      return 0;
    }
    case Operation::kCreateSrq: {
      const auto body = read_as<abi::CreateSrqRequest>(request);
      const std::uint32_t entries = std::bit_ceil(body.max_wr);
      const std::uint32_t stride = abi::receive_stride(body.max_sge);
      const abi::RingLocation ring =
          session.allocate(64 + std::uint64_t{stride} * entries, announce);
      const std::uint32_t handle = session.next_handle_++;
      session.srqs[handle] = {body, {{session.at(ring), entries}, stride}};
      write_as(reply,
               abi::CreateSrqReply{handle, entries, body.max_wr, body.max_sge, ring, segment(), 0});
      return 0;
    }
    case Operation::kResizeSrq: {
      const auto body = read_as<abi::ResizeSrqRequest>(request);
      FakeSrq& srq = session.srqs[body.handle];
      const std::uint32_t entries = std::bit_ceil(body.max_wr);
      const std::uint32_t max_sge = srq.request.max_sge;
      const abi::RingLocation ring =
          session.allocate(64 + std::uint64_t{srq.queue.stride} * entries, announce);
      srq.move_to({session.at(ring), entries});
      write_as(reply,
               abi::CreateSrqReply{body.handle, entries, body.max_wr, max_sge, ring, segment(), 0});
      return 0;
    }
    case Operation::kQuerySrq:
      write_as(reply, abi::QuerySrqReply{10, 2, 5, 0});
      return 0;
    case Operation::kCreateQp: {
      const auto body = read_as<abi::CreateQpRequest>(request);
      FakeQp qp;
      qp.request = body;
      qp.send.entries = std::bit_ceil(std::max(body.max_send_wr, 1u));
      qp.send_stride = abi::send_stride(body.max_send_sge, body.max_inline);
      qp.receive.ring.entries = std::bit_ceil(std::max(body.max_receive_wr, 1u));
      qp.receive.stride = abi::receive_stride(body.max_receive_sge);
      const abi::RingLocation send = session.allocate(
          abi::send_ring_tail(qp.send.entries, qp.send_stride) + sizeof(abi::SendRingTail),
          announce);
      bool never = false;
      const abi::RingLocation receive =
          session.allocate(64 + std::uint64_t{qp.receive.stride} * qp.receive.ring.entries, never);
      qp.send.base = session.at(send);
      qp.receive.ring.base = session.at(receive);
      const std::uint32_t qpn = 0x010200 + session.next_handle_++;
      session.qps[qpn] = qp;
      write_as(reply,
               abi::CreateQpReply{qpn, qp.send.entries, qp.receive.ring.entries, body.max_send_wr,
                                  body.max_receive_wr, body.max_send_sge, body.max_receive_sge,
                                  body.max_inline, send, receive, segment(), 0});
      return 0;
    }
    case Operation::kQueryQp: {
      abi::QueryQpReply body{};
      body.attributes.qp_state = IBV_QPS_ERR;
      body.attributes.dest_qp_num = 77;
      body.attributes.timeout = 14;
      body.attributes.av.sgid_index = 3;
      write_as(reply, body);
      return 0;
    }
    case Operation::kOpenEventChannel:
      return open_channel(session, reply, fds);
    case Operation::kConnectionCommand:
      return carry_out(session, request, reply);
    default:
      return 0;
  }
}

}  // namespace softhca::provider::test
