#include "daemon/control/event_channel.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "daemon/control/capability.hpp"
#include "daemon/control/clock.hpp"

namespace softhca::control {
namespace {

// One process must not keep the others of its tenant from being served.
constexpr int kRequestsPerTurn = 16;

}  // namespace

EventChannel::EventChannel(Connections& connections, engine::Tenant& tenant, ChannelRequest request)
    : connections_(connections),
      tenant_(tenant),
      socket_(std::move(request.socket)),
      descriptors_(std::move(request.descriptors)) {}

EventChannel::~EventChannel() {
  if (channel_) connections_.close_channel(tenant_, *channel_);
}

std::unique_ptr<EventChannel> EventChannel::open(Connections& connections, engine::Tenant& tenant,
                                                 ChannelRequest request) {
  const std::uint32_t tag = request.tag;
  const int refusal = request.refusal;
  const management::rdma_cm::ChannelOwner owner{
      .process = request.peer.pid,
      .user = request.peer.uid,
      .may_bind_low_ports = may_bind_low_ports(request.peer),
      .level = request.level};
  std::unique_ptr<EventChannel> channel(new EventChannel(connections, tenant, std::move(request)));
  Reply reply;
  const int error = channel->start(owner, refusal, reply);
  const bool answered = send_reply(channel->socket(), tag, error, reply);
  channel->program_end_.reset();
  return error == 0 && answered ? std::move(channel) : nullptr;
}

int EventChannel::start(const management::rdma_cm::ChannelOwner& owner, int refusal, Reply& reply) {
  if (refusal != 0) return refusal;
  if (!descriptors_) return EMFILE;
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return errno;
  signal_ = UniqueFd(ends[0]);
  program_end_ = UniqueFd(ends[1]);
  channel_ = connections_.open_channel(tenant_, owner, signal_.get());
  if (!channel_) return ENODEV;
  reply.write(abi::HandleBody{channel_->value, 0});
  reply.attach(program_end_.get());
  return 0;
}

bool EventChannel::serve() {
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
bool EventChannel::answer(std::span<const std::byte> record) {
  abi::RequestHeader header;
  if (record.size() < sizeof header) return false;
  std::memcpy(&header, record.data(), sizeof header);
  if (header.operation != static_cast<std::uint32_t>(abi::Operation::kConnectionCommand))
    return false;
  Reply reply;
  const int error = run(record.subspan(sizeof header), reply);
  return send_reply(socket_.get(), header.tag, error, reply);
}

int EventChannel::run(std::span<const std::byte> body, Reply& reply) {
  abi::ConnectionCommandRequest request;
  if (!RequestBody(body).read(request, true) ||
      body.size() > sizeof request + abi::kMaxConnectionCommand)
    return EINVAL;
  management::rdma_cm::Service* service = connections_.find(tenant_);
  if (service == nullptr) return ENODEV;
  management::rdma_cm::Reply answer;
  const int error =
      service->command(*channel_, request.command, management::rdma_cm::ChannelId(request.channel),
                       body.subspan(sizeof request), answer, now());
  if (error != 0) return error;
  struct {
    abi::ConnectionCommandReply head;
    std::array<std::byte, abi::kMaxConnectionReply> bytes;
  } out{};
  out.head.bytes = static_cast<std::uint32_t>(answer.bytes);
  out.head.drained = answer.drained;
  std::memcpy(out.bytes.data(), answer.body.data(), answer.bytes);
  reply.write(out, sizeof out.head + answer.bytes);
  return 0;
}

}  // namespace softhca::control
