// SPDX-License-Identifier: Apache-2.0

// The service of rdma_cm with three channels of two processes that send commands of their own
// making or nearly right ones, to peers that are each other; and MADs, some of them changed.
#include "daemon/roce/rdma_cm/service.hpp"

#include <array>
#include <cerrno>
#include <deque>
#include <map>

#include "tests/fuzz/input.hpp"

namespace softhca::management::rdma_cm {
namespace {

using fuzz::Input;
using fuzz::require;

constexpr RdmaCmLimits kLimits{
    .identifiers = 24, .listeners = 4, .backlog = 4, .ephemeral = {.first = 40000, .last = 40031}};
constexpr std::size_t kBody = 340;

class Run final : public RdmaCmEnvironment {
 public:
  explicit Run(Input& input) : input_(input), service_(*this, kLimits) {
    service_.admission().set({{.level = "", .carries = 6}}, 8);
    for (std::size_t i = 0; i < channels_.size(); ++i) open(i);
  }

  void run() {
    while (!input_.done()) step();
    for (const ChannelId channel : channels_) close(channel);
    for (unsigned steps = 0; service_.next_deadline() != kNever || !packets_.empty(); ++steps) {
      require(steps < 10000, "it comes to an end");
      deliver();
      now_ = std::max(now_, std::min(service_.next_deadline(), now_ + std::chrono::hours(1)));
      service_.expire(now_);
    }
    require(service_.identifiers() == 0 && service_.memberships() == 0 &&
                service_.listeners() == 0 && service_.manager().size() == 0 &&
                service_.admission().admitted() == 0,
            "nothing remains");
  }

  // Environment
  void send(const cm::Path& path, const wire::Mad& mad) override {
    packets_.push_back({path, mad});
  }
  std::uint32_t random() override { return next_random_ += 0x01000193; }
  void signal(ChannelId channel) override {
    require(!signalled_[channel.value], "a signal that does not stand");
    signalled_[channel.value] = true;
  }
  std::span<const TenantGid> addresses() const override { return kOwn; }
  TenantAdapter adapter(const std::optional<Gid>&) const override { return {.node_guid = 1}; }
  std::string networks(bool) const override { return "networks"; }
  std::optional<Gid> source_for(const Gid& destination) const override {
    for (const TenantGid& own : kOwn)
      if (own.gid.is_ipv4() == destination.is_ipv4()) return own.gid;
    return std::nullopt;
  }
  void resolve(const Gid&, const Gid&, ResolveCookie cookie) override {
    if (input_.flag()) return service_.resolved(cookie, input_.flag());
    cookie_ = cookie;
  }
  bool may_name_queue_pair(Qpn qpn, uid_t) const override { return qpn.value % 8 != 7; }
  void note_refused(Refusal) override {}
  void note_reject_sent(wire::CmRejectReason) override {}
  void note_reject_received(wire::CmRejectReason) override {}
  void note_unreachable(Role) override {}
  void note_established(Role, Duration) override {}

 private:
  struct Packet {
    cm::Path path;
    wire::Mad mad;
  };
  static constexpr std::array<TenantGid, 3> kOwn{{{Gid::from_ipv4(0x0a000001), 0},
                                                  {Gid::from_ipv4(0x0a000002), 1},
                                                  {Gid{.bytes = {0xfd, 1}}, 2}}};

  void open(std::size_t i) {
    channels_[i] = service_.open_channel({.process = i == 2 ? 2 : 1});
    signalled_[channels_[i].value] = false;
  }
  void close(ChannelId channel) {
    while (!service_.close_channel(channel, now_)) {
    }
    signalled_.erase(channel.value);
    std::erase_if(holder_, [&](const auto& one) { return one.second == channel; });
  }

  void step() {
    const std::uint32_t what = input_.below(32);
    if (what < 24) return command(what);
    if (what < 29) return deliver();
    if (what == 29) {
      now_ += std::chrono::milliseconds(input_.take<std::uint16_t>());
      return service_.expire(now_);
    }
    if (what == 30) return service_.resolved(cookie_, input_.flag());
    const std::size_t i = input_.below(3);
    close(channels_[i]);
    open(i);
  }

  /// To whom they are for; now and then changed on the way, or lost.
  void deliver() {
    for (std::size_t left = packets_.size(); left > 0; --left) {
      Packet packet = packets_.front();
      packets_.pop_front();
      const std::uint32_t fate = input_.below(16);
      if (fate == 15) continue;
      if (fate == 14) packet.mad[input_.byte()] ^= std::byte{input_.byte()};
      std::swap(packet.path.local, packet.path.remote);
      service_.receive(packet.mad, packet.path, Qpn(1), now_);
    }
  }

  SocketAddress some_address() {
    static const std::array<Gid, 8> kSome{Gid::from_ipv4(0x0a000001), Gid::from_ipv4(0x0a000002),
                                          Gid{.bytes = {0xfd, 1}},    Gid::from_ipv4(0x7f000001),
                                          Gid::from_ipv4(0),          Gid{},
                                          Gid::from_ipv4(0xef010101), Gid::from_ipv4(0x0a000009)};
    SocketAddress at{.address = kSome[input_.below(8)]};
    at.family = at.address.is_ipv4() ? AF_INET : AF_INET6;
    at.port = input_.below(2) == 0 ? 7174 : 0;
    return at;
  }

  template <class T>
  void put(std::size_t at, const T& value) {
    std::memcpy(&body_[at], &value, sizeof value);
  }

  /// Where a command has the number of its identifier; 0xffff: it has none.
  static std::size_t place_of_id(std::uint32_t number) {
    static constexpr std::array<std::uint16_t, 19> kPlaces{
        0xffff, 8, 36, 56, 0, 8, 272, 0, 280, 0, 0, 8, 0xffff, 0xffff, 8, 0, 44, 0xffff, 8};
    return number < kPlaces.size() ? kPlaces[number] : 0xffff;
  }

  void fill(std::uint32_t number) {
    const auto bytes = input_.bytes(input_.byte() % 32);
    body_.fill(std::byte{});
    std::memcpy(&body_[input_.byte()], bytes.data(), bytes.size());
    switch (number) {
      case RDMA_USER_CM_CMD_CREATE_ID: {
        static constexpr std::array<std::uint16_t, 4> kSpaces{RDMA_PS_TCP, RDMA_PS_TCP, RDMA_PS_UDP,
                                                              RDMA_PS_IPOIB};
        put(0, std::uint64_t{1});
        return put(16, kSpaces[input_.below(4)]);
      }
      case RDMA_USER_CM_CMD_BIND_IP:
        return put(8, to_sockaddr(some_address()));
      case RDMA_USER_CM_CMD_RESOLVE_IP:
        return put(28, to_sockaddr(some_address()));
      case RDMA_USER_CM_CMD_CONNECT:
        put(0, input_.byte());
        return put(271, std::uint8_t{1});
      case RDMA_USER_CM_CMD_ACCEPT:
        put(0, std::uint64_t{2});
        put(8, input_.byte());
        return put(8 + 271, input_.byte());
      case RDMA_USER_CM_CMD_JOIN_IP_MCAST:
        return put(16, to_sockaddr(some_address()));
      default:
        return;
    }
  }

  void command(std::uint32_t number) {
    const std::size_t who = input_.below(3);
    const ChannelId channel = channels_[who], other = channels_[input_.below(3)];
    fill(number);
    const std::size_t place = place_of_id(number);
    const std::uint32_t id = input_.below(12);
    if (place != 0xffff) put(place, id);
    const std::size_t length = input_.below(16) == 15 ? input_.byte() : kBody;

    ChannelReply reply;
    const bool had_event = signalled_[channel.value];
    const int error = service_.command(
        channel, {.command = number, .other = other, .body = std::span(body_).first(length)}, reply,
        now_);
    require(error == 0 || !reply.drained, "what failed drains nothing");
    if (reply.drained) {
      const ChannelId emptied = number == RDMA_USER_CM_CMD_MIGRATE_ID ? other : channel;
      require(signalled_[emptied.value], "a signal that stands is cleared");
      signalled_[emptied.value] = false;
    }
    if (number == RDMA_USER_CM_CMD_GET_EVENT)
      require((error == 0) == had_event && (error == 0 || error == EAGAIN), "a signal is an event");
    if (error == 0) check_holder(number, channel, other, id, place, reply);
  }

  /// Keeps account of which channel holds which identifier, as the replies tell.
  void check_holder(std::uint32_t number, ChannelId channel, ChannelId other, std::uint32_t id,
                    std::size_t place, const ChannelReply& reply) {
    const ChannelId from = number == RDMA_USER_CM_CMD_MIGRATE_ID ? other : channel;
    if (place != 0xffff) {
      require(holder_.contains(id) && holder_[id] == from, "an identifier of its own");
      if (number == RDMA_USER_CM_CMD_DESTROY_ID) holder_.erase(id);
      if (number != RDMA_USER_CM_CMD_MIGRATE_ID) return;
      require((channel == channels_[2]) == (other == channels_[2]), "within a process");
      holder_[id] = channel;
    } else if (number == RDMA_USER_CM_CMD_CREATE_ID) {
      rdma_ucm_create_id_resp made;
      std::memcpy(&made, reply.body.data(), sizeof made);
      require(!holder_.contains(made.id), "a number that is free");
      holder_[made.id] = channel;
    } else if (number == RDMA_USER_CM_CMD_GET_EVENT) {
      rdma_ucm_event_resp event;
      std::memcpy(&event, reply.body.data(), sizeof event);
      if (event.event == static_cast<std::uint32_t>(EventType::kConnectRequest)) {
        require(!holder_.contains(event.id), "a number that is free");
        holder_[event.id] = channel;
      }
    }
  }

  Input& input_;
  Time now_{std::chrono::hours(1)};
  std::uint32_t next_random_ = 1;
  std::map<std::uint32_t, bool> signalled_;
  std::map<std::uint32_t, ChannelId> holder_;  ///< by identifier
  std::deque<Packet> packets_;
  ResolveCookie cookie_;
  std::array<std::byte, kBody> body_{};
  std::array<ChannelId, 3> channels_;
  Service service_;
};

}  // namespace
}  // namespace softhca::management::rdma_cm

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  softhca::fuzz::Input input(data, size);
  softhca::management::rdma_cm::Run(input).run();
  return 0;
}
