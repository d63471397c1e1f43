// SPDX-License-Identifier: Apache-2.0

#include "guest/relay/relay.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "abi/session.hpp"
#include "guest/channel/tree_path.hpp"

namespace softhca::guest {
namespace {

constexpr std::uint32_t kTreeInterval = 1000;  // ms

}  // namespace

Relay::Relay(EventLoop& loop, Machine& machine, RelayOptions options, Report& report)
    : loop_(loop),
      machine_(machine),
      options_(std::move(options)),
      report_(report),
      channel_(loop, *this),
      streams_(Side::kRelay, loop, channel_.outbox(), *this),
      tree_(options_.folder),
      tree_timer_(loop,
                  [this] {
                    tree_.scan();
                    tree_timer_.start(kTreeInterval);
                  }),
      listener_(loop) {
  machine_.watch(
      loop, [this] { answer_start(); }, [this] { machine_lost(); });
}

Relay::~Relay() {
  streams_.clear();
  for (Draining& each : draining_) loop_.arm(each.fd.get(), each.watch, 0);
}

void Relay::connect(UniqueFd channel) {
  end_streams();
  starting_.reset();
  channel_.open(std::move(channel));
}

Outcome Relay::listen(const std::string& place) {
  return listener_.open(place, [this](UniqueFd channel) { connect(std::move(channel)); });
}

void Relay::flush() {
  if (is_started_) {
    streams_.flush();
    tree_.send(channel_.outbox());
  }
  channel_.flush();
}

bool Relay::answer(Stream&, std::span<const std::byte>) { return false; }

bool Relay::make(Stream&, std::span<const PassedDescriptor>, Delivery&) { return false; }

void Relay::closed(std::uint32_t stream) {
  if (stream < kFirstOfRelay) --connections_;
  refused_.erase(stream);
}

void Relay::lost(bool is_broken) {
  if (is_broken && is_started_)
    report_("tenant \"" + options_.tenant +
            "\": the guest has broken the protocol of the channel; its connections are closed "
            "until softhca-guest begins anew");
  end_streams();
  starting_.reset();
}

void Relay::disconnected() {
  end_streams();
  starting_.reset();
}

bool Relay::handle(Frame& frame) {
  if (frame.kind == FrameKind::kStart) return start(frame);
  if (!is_started_) return false;
  switch (frame.kind) {
    case FrameKind::kOpen:
      return open(frame);
    case FrameKind::kRecord:
    case FrameKind::kData:
    case FrameKind::kClose:
    case FrameKind::kWake:
    case FrameKind::kCredit:
      return streams_.receive(frame);
    default:
      return false;
  }
}

bool Relay::start(Frame frame) {
  StartBody body;
  if (!frame.take(body)) return false;
  end_streams();
  channel_.outbox().clear();
  starting_ = body;
  if (const std::string why = why_refused(body); !why.empty()) {
    report_("tenant \"" + options_.tenant + "\": " + why);
    send_started(EINVAL, why, {});
    return true;
  }
  machine_.start(body.begin, options_.seal);
  answer_start();
  return true;
}

/// Returns why the guest cannot be served; empty: it can.
std::string Relay::why_refused(const StartBody& start) const {
  if (start.version != kChannelVersion)
    return "softhca-guest speaks version " + std::to_string(start.version) +
           " of the channel, and softhca-run version " + std::to_string(kChannelVersion) +
           "; install the same release in the guest and on the host";
  if (start.begin % abi::kPageBytes != 0 || start.begin > machine_.bytes() ||
      start.bytes > machine_.bytes() - start.begin)
    return "softhca-guest found a device of " + std::to_string(start.bytes) + " bytes from byte " +
           std::to_string(start.begin) + " of a region of " + std::to_string(machine_.bytes()) +
           " bytes; give it the device of the region with --region";
  return "";
}

/// Answers a kStart when the daemon has answered, and has ended the sessions of the earlier one:
/// then it does not write to their memory any more.
void Relay::answer_start() {
  const Machine::Started* const started = machine_.started();
  if (!starting_ || started == nullptr || !draining_.empty()) return;
  if (started->error != 0)
    report_("tenant \"" + options_.tenant + "\": the machine does not start: " + started->text);
  send_started(started->error, started->error == 0 ? options_.tenant : started->text,
               started->reply);
  if (started->error != 0) return;
  is_started_ = true;
  if (machine_.proxy() >= 0)
    streams_.add(kProxyStream, StreamKind::kRecords,
                 UniqueFd(::fcntl(machine_.proxy(), F_DUPFD_CLOEXEC, 0)));
  tree_.restart();
  tree_timer_.start(kTreeInterval);
}

void Relay::send_started(int error, const std::string& text, const abi::StartMachineReply& reply) {
  const StartedBody body{starting_->nonce, kChannelVersion, error, reply};
  channel_.outbox().add_raw(std::as_bytes(std::span(kMagic)));
  channel_.outbox().add(
      FrameKind::kStarted, 0,
      {bytes_of(body),
       std::as_bytes(std::span(text)).first(std::min<std::size_t>(text.size(), 1024))});
  starting_.reset();
}

bool Relay::open(const Frame& frame) {
  const std::string name(reinterpret_cast<const char*>(frame.payload.data()), frame.payload.size());
  if (!is_socket_name(name) || frame.stream == 0 || frame.stream >= kFirstOfRelay ||
      streams_.find(frame.stream) != nullptr || connections_ >= kMaxConnections)
    return false;
  const bool is_control = name == kControlSocket;
  auto socket = connect_to(options_.folder + "/" + name, is_control ? SOCK_STREAM : SOCK_SEQPACKET);
  UniqueFd fd;
  if (socket) {
    fd = std::move(*socket);
  } else {
    report_(socket.error().message);
    if (is_control && socket.error().code == EACCES) fd = refuse_control(frame.stream);
  }
  streams_.add(frame.stream, is_control ? StreamKind::kBytes : StreamKind::kConnection,
               std::move(fd));
  ++connections_;
  return true;
}

/// Returns a connection on which the program finds an error of the admin protocol, as a connection
/// that only ends would not say why.
UniqueFd Relay::refuse_control(std::uint32_t stream) {
  constexpr std::string_view kLine =
      R"({"jsonrpc":"2.0","id":null,"error":{"code":6,"message":"softhca-run on the host has no )"
      R"(permission for control.sock; the daemon's configuration sets its owner, group and mode: )"
      R"(control of the tenant"}})"
      "\n";
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return {};
  UniqueFd ours(ends[0]), theirs(ends[1]);
  if (::send(ours.get(), kLine.data(), kLine.size(), MSG_NOSIGNAL) < 0) return {};
  ::shutdown(ours.get(), SHUT_RD);  // drops what the program sends
  refused_[stream] = std::move(ours);
  return theirs;
}

std::optional<DescriptorKind> Relay::kind_of(int fd) const {
  struct stat info;
  if (::fstat(fd, &info) != 0) return std::nullopt;
  if (machine_.is_region(fd)) return DescriptorKind::kRegion;
  // The daemon sends eventfds, but no other descriptors that are not files.
  if ((info.st_mode & S_IFMT) == 0) return DescriptorKind::kEvent;
  int type = 0;
  socklen_t length = sizeof type;
  if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) != 0) return std::nullopt;
  if (type == SOCK_SEQPACKET) return DescriptorKind::kRecords;
  if (type == SOCK_STREAM) return DescriptorKind::kBytes;
  return std::nullopt;
}

/// Returns a number that no stream has. REQUIRES: there is one.
std::uint32_t Relay::next_number() {
  do last_number_ = last_number_ == UINT32_MAX ? kProxyStream + 1 : last_number_ + 1;
  while (streams_.find(last_number_) != nullptr);
  return last_number_;
}

bool Relay::describe(Stream& stream, std::span<UniqueFd> fds,
                     std::vector<PassedDescriptor>& descriptors) {
  for (const UniqueFd& fd : fds) {
    const auto kind = kind_of(fd.get());
    if (!kind) {
      report_("tenant \"" + options_.tenant +
              "\": the daemon has sent a descriptor that cannot be passed to a guest; the "
              "connection is closed");
      return false;
    }
    descriptors.push_back({static_cast<std::uint32_t>(*kind), 0});
  }
  if (streams_.size() + fds.size() > kMaxStreams - kMaxConnections) {
    report_("tenant \"" + options_.tenant + "\": programs of the guest have " +
            std::to_string(streams_.size()) + " connections and channels; one more is closed");
    return false;
  }
  for (std::size_t i = 0; i < fds.size(); ++i) {
    const auto kind = static_cast<DescriptorKind>(descriptors[i].kind);
    if (kind == DescriptorKind::kRegion) continue;
    descriptors[i].stream = next_number();
    const StreamKind of_stream = kind == DescriptorKind::kEvent     ? StreamKind::kEvent
                                 : kind == DescriptorKind::kRecords ? StreamKind::kRecords
                                                                    : StreamKind::kBytes;
    streams_.add(descriptors[i].stream, of_stream, std::move(fds[i]));
    if (kind == DescriptorKind::kEvent) stream.events.push_back(descriptors[i].stream);
  }
  return true;
}

void Relay::machine_lost() {
  report_("tenant \"" + options_.tenant +
          "\": the daemon has ended the machine; programs of the guest have lost their device");
  streams_.end_all();
}

/// Ends what belongs to an agent that has gone, or begins anew.
void Relay::end_streams() {
  is_started_ = false;
  tree_timer_.stop();
  connections_ = 0;
  refused_.clear();
  for (UniqueFd& connection : streams_.clear()) drain(std::move(connection));
}

void Relay::drain(UniqueFd connection) {
  ::shutdown(connection.get(), SHUT_WR);
  const auto which = draining_.emplace(draining_.end());
  which->fd = std::move(connection);
  which->watch.ready = [this, which](std::uint32_t) { drained(which); };
  loop_.arm(which->fd.get(), which->watch, EPOLLIN);
}

void Relay::drained(std::list<Draining>::iterator which) {
  std::array<std::byte, abi::kMaxRecord> buffer;
  ReceivedRecord record;
  if (receive_record(which->fd.get(), buffer, abi::kMaxFds, record) != Received::kEnd) return;
  loop_.arm(which->fd.get(), which->watch, 0);
  draining_.erase(which);
  answer_start();
}

}  // namespace softhca::guest
