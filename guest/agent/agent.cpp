// SPDX-License-Identifier: Apache-2.0

#include "guest/agent/agent.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <cstring>
#include <utility>

#include "guest/channel/tree_path.hpp"

namespace softhca::guest {
namespace {

constexpr std::uint32_t kRetry = 1000;    // ms
constexpr std::uint32_t kAnswer = 60000;  // ms; sealing a large region takes long

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Agent::Agent(EventLoop& loop, Region& region, AgentOptions options, Report& report)
    : loop_(loop),
      region_(region),
      options_(std::move(options)),
      report_(report),
      channel_(loop, *this),
      streams_(Side::kAgent, loop, channel_.outbox(), *this),
      clients_(loop, region,
               [this](std::uint32_t number) {
                 if (Stream* const stream = streams_.find(number); stream != nullptr)
                   streams_.end(*stream);
               }),
      memory_(loop, region),
      sockets_(loop, options_.group,
               [this](const std::string& name, UniqueFd connection) {
                 accept(name, std::move(connection));
               }),
      retry_(loop, [this] { begin(); }),
      waiting_(loop, [this] { begin_later("the host does not answer"); }) {}

Agent::~Agent() { streams_.clear(); }

void Agent::begin() {
  auto channel = options_.open_channel();
  if (!channel) return begin_later(channel.error().message);
  channel_.open(std::move(*channel));
  send_start();
  waiting_.start(kAnswer);
}

void Agent::send_start() {
  if (::getrandom(&nonce_, sizeof nonce_, 0) != sizeof nonce_) ++nonce_;
  const std::vector<std::byte> zeros(kMaxFrame);
  channel_.outbox().add_raw(zeros);
  channel_.outbox().add_raw(std::as_bytes(std::span(kMagic)));
  const StartBody body{nonce_, region_.begin(), region_.bytes(), kChannelVersion, 0};
  channel_.outbox().add(FrameKind::kStart, 0, {bytes_of(body)});
}

/// Ends all connections, and opens a channel in a while.
void Agent::begin_later(const std::string& why) {
  report_("no channel to the host: " + why + "; trying again");
  is_started_ = false;
  waiting_.stop();
  sockets_.close_all();
  channel_.close();
  streams_.clear();
  connections_ = 0;
  clients_.remove_all();
  memory_.stop();
  offers_.clear();
  retry_.start(kRetry);
}

void Agent::lost(bool is_broken) {
  if (is_started_)
    begin_later(is_broken ? "the host has broken the protocol" : "the host has begun anew");
}

void Agent::disconnected() { begin_later("it is closed"); }

void Agent::flush() {
  if (is_started_) {
    streams_.flush();
    sockets_.accept_more(channel_.outbox().has_room());
  }
  channel_.flush();
}

bool Agent::handle(Frame& frame) {
  if (!is_started_) return frame.kind == FrameKind::kStarted && started(frame);
  switch (frame.kind) {
    case FrameKind::kFile:
      return receive_file(frame);
    case FrameKind::kRecord:
    case FrameKind::kData:
    case FrameKind::kClose:
    case FrameKind::kCredit:
      return streams_.receive(frame);
    default:
      return false;
  }
}

/// Returns false for the answer to another agent, or an earlier one.
bool Agent::started(Frame frame) {
  StartedBody body;
  if (!frame.take(body) || body.nonce != nonce_) return false;
  const std::string text = text_of(frame.payload);
  if (body.error != 0) {
    begin_later("the host refuses: " + text);
    return true;
  }
  if (const auto served = serve(body.machine, text); !served) begin_later(served.error().message);
  return true;
}

Outcome Agent::serve(const abi::StartMachineReply& machine, const std::string& tenant) {
  if (!is_plain_name(tenant, kMaxTenantName))
    return Error{"the host names a tenant \"" + tenant + "\"", EPROTO};
  if (auto served = clients_.serve(machine.shared); !served) return served;
  if (auto opened = tree_.open(options_.runtime_directory + "/" + tenant); !opened) return opened;
  waiting_.stop();
  is_started_ = true;
  if (machine.proxy.bytes == 0) return {};
  auto bell = memory_.start(machine.proxy);
  if (!bell) return bell.error();
  streams_.add(kProxyStream, StreamKind::kRecords, std::move(*bell));
  return {};
}

/// Returns a number that no stream has. REQUIRES: there is one.
std::uint32_t Agent::next_number() {
  do last_number_ = last_number_ + 1 == kFirstOfRelay ? 1 : last_number_ + 1;
  while (streams_.find(last_number_) != nullptr);
  return last_number_;
}

void Agent::accept(const std::string& name, UniqueFd connection) {
  if (connections_ >= kMaxConnections) {
    report_("programs have " + std::to_string(connections_) + " connections; one more is closed");
    return;
  }
  const std::uint32_t number = next_number();
  // A connection to the control socket gives no memory to its process.
  const bool is_control = name == kControlSocket;
  if (!is_control && !clients_.add(number, connection.get())) return;
  channel_.outbox().add(FrameKind::kOpen, number, {std::as_bytes(std::span(name))});
  streams_.add(number, is_control ? StreamKind::kBytes : StreamKind::kConnection,
               std::move(connection));
  ++connections_;
}

void Agent::closed(std::uint32_t stream) {
  if (stream >= kFirstOfRelay) return;
  --connections_;
  offers_.erase(stream);
  clients_.remove(stream);
}

bool Agent::describe(Stream&, std::span<UniqueFd>, std::vector<PassedDescriptor>&) { return false; }

/// Returns the program's descriptor.
UniqueFd Agent::make_descriptor(Stream& stream, const PassedDescriptor& descriptor) {
  const auto kind = static_cast<DescriptorKind>(descriptor.kind);
  const auto copy_of = [](int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)); };
  if (kind == DescriptorKind::kRegion) return copy_of(region_.fd());
  if (kind == DescriptorKind::kEvent) {
    UniqueFd ours(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    UniqueFd theirs = copy_of(ours.get());
    if (!theirs || streams_.add(descriptor.stream, StreamKind::kEvent, std::move(ours)) == nullptr)
      return {};
    stream.events.push_back(descriptor.stream);
    return theirs;
  }
  const bool has_records = kind == DescriptorKind::kRecords;
  int ends[2];
  if (::socketpair(AF_UNIX, (has_records ? SOCK_SEQPACKET : SOCK_STREAM) | SOCK_CLOEXEC, 0, ends) !=
      0)
    return {};
  UniqueFd ours(ends[0]), theirs(ends[1]);
  const StreamKind of_stream = has_records ? StreamKind::kRecords : StreamKind::kBytes;
  if (streams_.add(descriptor.stream, of_stream, std::move(ours)) == nullptr) return {};
  return theirs;
}

bool Agent::make(Stream& stream, std::span<const PassedDescriptor> descriptors,
                 Delivery& delivery) {
  for (const PassedDescriptor& descriptor : descriptors) {
    delivery.fds.push_back(make_descriptor(stream, descriptor));
    if (delivery.fds.back()) continue;
    report_(std::string("cannot make a descriptor for a program: ") + std::strerror(errno) +
            "; its connection is closed");
    return false;
  }
  return complete_offer(stream.number, delivery);
}

}  // namespace softhca::guest
