// SPDX-License-Identifier: Apache-2.0

// Fuzzes what a socket of a port receives, whole or as trains. A packet socket delivers a header
// before each frame (virtio_net_hdr) and control messages beside it. A UDP socket delivers control
// messages beside each datagram. The other end of a virtual link writes these, so they may hold any
// value. The port must not read beyond a message. A train read in place must be the same as a train
// that is split into packets first.
#include <linux/if_packet.h>
#include <netinet/udp.h>
#include <sanitizer/asan_interface.h>

#include <deque>

#include "daemon/base/endian.hpp"
#include "daemon/port/packet/receive_buffers.hpp"
#include "daemon/port/packet/socket.hpp"
#include "daemon/port/udp/datagram_buffers.hpp"
#include "daemon/roce/wire/frame.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/unit/port/train_splitter.hpp"
#include "tests/unit/roce/wire/pcap.hpp"

namespace softhca::port {
namespace {

using fuzz::Input;
using fuzz::require;
using test::Bytes;

/// What the kernel has of one message.
struct Message {
  Bytes before;  ///< the frame; of a packet socket alone
  Bytes data;
  Bytes control;  ///< control messages
  Bytes sender;   ///< of a UDP socket alone
  bool truncated = false;
};
std::deque<Message> waiting;

}  // namespace
}  // namespace softhca::port

/// The kernel's part. What it does not write of a buffer is not to be read.
extern "C" int recvmmsg(int, mmsghdr* messages, unsigned count, int, timespec*) {
  using namespace softhca::port;
  unsigned got = 0;
  for (; got < count && !waiting.empty(); ++got) {
    const Message message = std::move(waiting.front());
    waiting.pop_front();
    msghdr& to = messages[got].msg_hdr;
    std::size_t part = 0, length = 0;
    for (const Bytes* from : {&message.before, &message.data}) {
      if (from == &message.before && from->empty()) continue;
      const iovec& into = to.msg_iov[part++];
      const std::size_t bytes = std::min(from->size(), into.iov_len);
      ASAN_UNPOISON_MEMORY_REGION(into.iov_base, into.iov_len);
      auto* const rest = std::copy_n(from->begin(), bytes, static_cast<std::byte*>(into.iov_base));
      ASAN_POISON_MEMORY_REGION(rest, into.iov_len - bytes);
      length += bytes;
    }
    std::ranges::copy(message.control, static_cast<std::byte*>(to.msg_control));
    to.msg_controllen = message.control.size();
    if (!message.sender.empty()) {
      std::ranges::copy(message.sender, static_cast<std::byte*>(to.msg_name));
      to.msg_namelen = static_cast<socklen_t>(message.sender.size());
    }
    to.msg_flags = message.truncated ? MSG_TRUNC : 0;
    messages[got].msg_len = static_cast<unsigned>(length);
  }
  return got == 0 ? -1 : static_cast<int>(got);
}

namespace softhca::port {
namespace {

const Gid kNear4 = Gid::from_ipv4(0x0a000001), kFar4 = Gid::from_ipv4(0x0a000002);
const Gid kNear6{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

class FedPort final : public Port {
 public:
  FedPort(MessageBuffers& buffers, std::uint32_t mtu) : buffers_(buffers), mtu_(mtu) {}
  std::size_t receive(std::span<Frame> out) override { return buffers_.receive(-1, out); }
  void release(std::span<const Frame> frames) override { buffers_.release(frames); }
  Frame allocate() override { return {}; }
  void transmit(const Frame&) override {}
  void flush() override {}
  MacAddress mac() const override { return {}; }
  std::uint32_t mtu() const override { return mtu_; }
  bool link_up() const override { return true; }
  PortCounters counters() const override { return {}; }

 private:
  MessageBuffers& buffers_;
  std::uint32_t mtu_;
};

void append(Bytes& to, const void* from, std::size_t bytes) {
  const auto* at = static_cast<const std::byte*>(from);
  to.insert(to.end(), at, at + bytes);
}

/// As the kernel lays it out.
void append_control(Bytes& to, int level, int type, const void* data, std::size_t bytes) {
  Bytes one(CMSG_SPACE(bytes));
  cmsghdr header{};
  header.cmsg_len = CMSG_LEN(bytes);
  header.cmsg_level = level;
  header.cmsg_type = type;
  std::memcpy(one.data(), &header, sizeof header);
  std::memcpy(one.data() + CMSG_LEN(0), data, bytes);
  to.insert(to.end(), one.begin(), one.end());
}

/// Ethernet, IP and UDP header of a packet with so many bytes behind them.
Bytes head(bool ipv4, bool tagged, std::size_t payload) {
  Bytes out(12);
  const auto add = [&](auto value) {
    std::byte bytes[sizeof value];
    store_be(bytes, value);
    append(out, bytes, sizeof bytes);
  };
  const auto length = static_cast<std::uint16_t>(payload + 8);
  if (tagged) add(std::uint32_t{0x81000005});
  add(static_cast<std::uint16_t>(ipv4 ? 0x0800 : 0x86dd));
  if (ipv4) {
    add(std::uint16_t{0x4500});
    add(static_cast<std::uint16_t>(length + 20));
    add(std::uint32_t{0x00074000});
    add(std::uint32_t{0x40110000});
    add(kFar4.ipv4());
    add(kNear4.ipv4());
  } else {
    add(std::uint32_t{0x60000000});
    add(length);
    add(std::uint16_t{0x1140});
    append(out, kNear6.bytes.data(), 16);
    append(out, kNear6.bytes.data(), 16);
  }
  add(std::uint16_t{50000});
  add(std::uint16_t{4791});
  add(length);
  add(std::uint16_t{0});
  return out;
}

/// Datagrams that are alike, behind the headers of one, which may be spoiled.
Bytes make_frame(Input& input, bool with_head) {
  const std::uint8_t shape = input.byte();
  const auto length = input.take<std::uint16_t>();
  const auto pattern = input.bytes(input.below(80));
  Bytes body(pattern.empty() ? 0 : length);
  for (std::size_t i = 0; i < body.size(); ++i)
    body[i] = static_cast<std::byte>(pattern[i % pattern.size()]);
  if (!with_head || (shape & 1) != 0) return body;
  Bytes frame = head((shape & 2) != 0, (shape & 4) != 0, body.size());
  for (unsigned edits = shape >> 6; edits > 0; --edits) {
    const std::uint32_t at = input.below(static_cast<std::uint32_t>(frame.size()));
    frame[at] = static_cast<std::byte>(input.byte());
  }
  frame.insert(frame.end(), body.begin(), body.end());
  frame.resize(std::min<std::size_t>(frame.size(), 65535 + 14));
  return frame;
}

Message take_packet(Input& input) {
  Message out;
  constexpr std::uint8_t kTypes[] = {0, Offload::kGsoUdp, Offload::kGsoUdp | Offload::kGsoEcn, 1};
  Offload offload;
  const std::uint8_t kind = input.byte();
  offload.gso_type = kind < 0xf0 ? kTypes[kind % 4] : input.byte();
  offload.gso_size = input.take<std::uint16_t>();
  append(out.before, &offload, sizeof offload);
  if ((kind & 4) != 0) {
    tpacket_auxdata aux{};
    aux.tp_status = input.byte();
    aux.tp_vlan_tci = input.take<std::uint16_t>();
    aux.tp_vlan_tpid = input.take<std::uint16_t>();
    append_control(out.control, SOL_PACKET, PACKET_AUXDATA, &aux, sizeof aux);
  }
  out.truncated = (kind & 0x18) == 0x18;
  out.data = make_frame(input, true);
  return out;
}

Message take_datagram(Input& input, bool ipv4) {
  Message out;
  const std::uint8_t kind = input.byte();
  if ((kind & 1) != 0) {
    const int segment = kind < 0xf0 ? input.take<std::uint16_t>() : input.take<int>();
    append_control(out.control, IPPROTO_UDP, UDP_GRO, &segment, sizeof segment);
  }
  const int tos = input.byte();
  append_control(out.control, ipv4 ? IPPROTO_IP : IPPROTO_IPV6, ipv4 ? IP_TOS : IPV6_TCLASS, &tos,
                 ipv4 ? 1 : sizeof tos);
  append_control(out.control, ipv4 ? IPPROTO_IP : IPPROTO_IPV6, ipv4 ? IP_TTL : IPV6_HOPLIMIT, &tos,
                 sizeof tos);
  if (ipv4) {
    sockaddr_in from{};
    from.sin_family = AF_INET;
    from.sin_port = input.take<std::uint16_t>();
    from.sin_addr.s_addr = input.take<std::uint32_t>();
    append(out.sender, &from, sizeof from);
  } else {
    sockaddr_in6 from{};
    from.sin6_family = AF_INET6;
    from.sin6_port = input.take<std::uint16_t>();
    append(out.sender, &from, sizeof from);
  }
  out.truncated = (kind & 0x18) == 0x18;
  out.data = make_frame(input, false);
  out.data.resize(std::min<std::size_t>(out.data.size(), 65535 - 8 - 20));
  return out;
}

/// What a packet says, whichever way it came.
struct Packet {
  wire::DropReason dropped{};
  Bytes datagram;
  std::uint16_t identification = 0;  ///< of IPv4
  bool operator==(const Packet&) const = default;
};

Packet packet_of(wire::DropReason dropped, const wire::ParsedFrame& parsed) {
  if (dropped != wire::DropReason::kNone) return {dropped, {}, 0};
  std::array<std::byte, wire::kGrhLength> grh;
  wire::grh_bytes(parsed, grh);
  (void)wire::check_icrc(parsed);
  require(parsed.payload.size() <= parsed.datagram.size(), "a payload lies in its datagram");
  return {dropped, Bytes(parsed.datagram.begin(), parsed.datagram.end()),
          parsed.is_ipv4 ? parsed.identification : std::uint16_t{0}};
}

/// Packets of all messages, trains read where they lie. `longest`: datagram in a train.
std::vector<Packet> read_in_place(MessageBuffers& buffers, std::size_t& longest) {
  std::vector<Packet> out;
  std::array<Frame, 32> frames;
  while (!waiting.empty()) {
    const std::size_t count = buffers.receive(-1, frames);
    for (const Frame& frame : std::span(frames).first(count)) {
      wire::FrameWalk walk(frame.bytes(), frame.segment);
      wire::ParsedFrame parsed;
      std::size_t bytes = 0, packets = 0;
      do {
        out.push_back(packet_of(walk.next(parsed), parsed));
        bytes += out.back().datagram.size();
        longest = std::max(longest, out.back().datagram.size());
        require(++packets <= wire::kMaxTrainPackets, "a train has an end");
      } while (walk.has_more());
      require(bytes <= frame.length, "packets of a train do not overlap");
    }
    buffers.release(std::span(frames).first(count));
  }
  return out;
}

std::vector<Packet> read_cut(MessageBuffers& buffers, std::uint32_t mtu) {
  std::vector<Packet> out;
  TrainSplitter splitter(std::make_unique<FedPort>(buffers, mtu));
  std::array<Frame, 32> frames;
  // An invalid message ends a call although others wait.
  for (std::size_t count = 1; count != 0 || !waiting.empty();) {
    count = splitter.receive(frames);
    for (const Frame& frame : std::span(frames).first(count)) {
      require(frame.segment == 0, "trains are cut into single packets");
      require(frame.length <= mtu + kEthernetOverhead, "a packet fits the link");
      wire::ParsedFrame parsed;
      out.push_back(packet_of(wire::parse_frame(frame.bytes(), parsed), parsed));
    }
    splitter.release(std::span(frames).first(count));
  }
  return out;
}

/// Returns the packets that were not dropped.
std::vector<Packet> sound(std::vector<Packet> packets) {
  std::erase_if(packets, [](const Packet& p) { return p.dropped != wire::DropReason::kNone; });
  return packets;
}

void run(Input input, MessageBuffers& buffers, std::uint8_t kind) {
  constexpr std::uint32_t kMtu = 9000;
  std::deque<Message> messages;
  while (!input.done() && messages.size() < 6)
    messages.push_back(kind % 3 == 0 ? take_packet(input) : take_datagram(input, kind % 3 == 1));
  std::size_t longest = 0;
  waiting = messages;
  const auto in_place = sound(read_in_place(buffers, longest));
  waiting = messages;
  const auto cut = sound(read_cut(buffers, kMtu));
  // When read in place, a train of too many packets is dropped whole. When split, a packet longer
  // than the MTU of the link is dropped.
  if (longest + 100 > kMtu) return;
  for (const Packet& packet : in_place)
    require(std::ranges::find(cut, packet) != cut.end(), "a packet that is cut is the same");
}

}  // namespace
}  // namespace softhca::port

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace softhca::port;
  softhca::fuzz::Input input(data, size);
  const std::uint8_t kind = input.byte();
  if (kind % 3 == 0) {
    static ReceiveBuffers buffers;
    run(input, buffers, kind);
  } else if (kind % 3 == 1) {
    static DatagramBuffers buffers(kNear4);
    run(input, buffers, kind);
  } else {
    static DatagramBuffers buffers(kNear6);
    run(input, buffers, kind);
  }
  return 0;
}
