// SPDX-License-Identifier: Apache-2.0

// Management datagrams to queue pair 1 as fast as the link takes them, from an address of this
// host or from made-up ones: requests to connect with random ids, or questions to the performance
// agent.
//
// usage: mad-flood INTERFACE SOURCE DESTINATION MAC CLASS SERVICE SECONDS
// SOURCE is an address of this host, or a network (172.16.0.0/12): each datagram has an address of
// its own there. MAC is the destination's. CLASS is 4 or 7; SERVICE, of class 7, the service id in
// hex, 0: random. Ends sooner by SIGTERM. Prints how many were sent and how many a second.
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "daemon/roce/wire/cm_messages.hpp"
#include "daemon/roce/wire/frame.hpp"
#include "daemon/roce/wire/opcode.hpp"
#include "tests/system/programs.hpp"

namespace {

using namespace softhca;

volatile std::sig_atomic_t stopping = 0;

constexpr std::size_t kFrames = 32768;  // all different
constexpr std::size_t kBatch = 64;

Gid ipv4(const char* text) {
  in_addr address{};
  expect(inet_pton(AF_INET, text, &address) == 1, text);
  return Gid::from_ipv4(ntohl(address.s_addr));
}

MacAddress mac(const char* text) {
  MacAddress address;
  std::uint8_t* b = address.bytes.data();
  expect(
      std::sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", b, b + 1, b + 2, b + 3, b + 4, b + 5) == 6,
      text);
  return address;
}

MacAddress mac_of(int fd, const char* interface) {
  ifreq request{};
  std::strncpy(request.ifr_name, interface, sizeof request.ifr_name - 1);
  expect(ioctl(fd, SIOCGIFHWADDR, &request) == 0, interface);
  MacAddress address;
  std::memcpy(address.bytes.data(), request.ifr_hwaddr.sa_data, address.bytes.size());
  return address;
}

/// What datagrams are sent from.
class Source {
 public:
  explicit Source(std::string text) {
    const std::size_t slash = text.find('/');
    if (slash != std::string::npos)
      hosts_ = (std::uint64_t{1} << (32 - std::atoi(&text[slash + 1]))) - 1;
    network_ = ipv4(text.substr(0, slash).c_str());
  }
  bool is_made_up() const { return hosts_ != 0; }
  Gid next() const {
    return is_made_up()
               ? Gid::from_ipv4(network_.ipv4() | static_cast<std::uint32_t>(random_() & hosts_))
               : network_;
  }

 private:
  Gid network_;
  std::uint64_t hosts_ = 0;
  mutable std::mt19937_64 random_{std::random_device{}()};
};

/// So that the kernel does not refuse the answers; they are thrown away.
void take_answers(const Gid& address) {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(wire::kRocePort);
  to.sin_addr.s_addr = htonl(address.ipv4());
  expect(fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0, "port 4791");
}

wire::Mad request_to_connect(std::mt19937_64& random, std::uint64_t service, const Gid& from,
                             const Gid& to) {
  wire::CmReq req;
  req.local_comm_id = static_cast<std::uint32_t>(random());
  req.service_id = service != 0 ? service : random();
  req.local_ca_guid = random();
  req.local_qpn = Qpn(static_cast<std::uint32_t>(random() & 0xffffff));
  req.responder_resources = req.initiator_depth = 1;
  req.remote_response_timeout = req.local_response_timeout = 20;
  req.path_mtu = 3;
  req.max_cm_retries = 15;
  req.primary.local_gid = from;
  req.primary.remote_gid = to;
  req.primary.hop_limit = 64;
  req.primary.local_ack_timeout = 19;
  constexpr std::size_t kHeader = wire::CmIpHeader::kBytes;
  wire::CmIpHeader header{.ip_version = 4};
  std::copy_n(&from.bytes[12], 4, &header.source[12]);
  std::copy_n(&to.bytes[12], 4, &header.destination[12]);
  wire::encode(header, std::span(req.private_data).first<kHeader>());
  return wire::encode_cm(req, random());
}

wire::Mad question(std::mt19937_64& random) {
  constexpr std::uint16_t kPortCounters = 0x0012;
  wire::Mad mad{};
  wire::encode({.management_class = wire::ManagementClass::kPerformance,
                .method = wire::MadMethod::kGet,
                .transaction_id = random(),
                .attribute_id = kPortCounters},
               mad);
  mad[65] = std::byte{1};  // PortSelect
  return mad;
}

std::vector<std::byte> frame_with(const wire::Mad& mad, const wire::FrameTemplate& path) {
  constexpr auto kOpcode = static_cast<std::uint8_t>(wire::Opcode::kUdSendOnly);
  std::vector<std::byte> frame(path.frame_length(kOpcode, mad.size()));
  wire::Headers headers{.opcode = kOpcode};
  headers.destination = headers.source = Qpn(wire::kGeneralServicesQpn);
  headers.qkey = wire::kGeneralServicesQkey;
  wire::FrameBuilder builder(frame, path, headers, mad.size(), 0);
  std::ranges::copy(mad, builder.payload().begin());
  frame.resize(builder.finish());
  return frame;
}

int raw_socket(const char* interface) {
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  expect(fd >= 0, "packet socket");
  sockaddr_ll to{};
  to.sll_family = AF_PACKET;
  to.sll_ifindex = static_cast<int>(if_nametoindex(interface));
  expect(to.sll_ifindex != 0 && bind(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0,
         interface);
  return fd;
}

void send_for(std::chrono::seconds duration, int fd, std::vector<std::vector<std::byte>>& frames) {
  std::vector<iovec> pieces;
  for (auto& frame : frames) pieces.push_back({frame.data(), frame.size()});
  std::vector<mmsghdr> messages(frames.size());
  for (std::size_t i = 0; i < frames.size(); ++i) {
    messages[i].msg_hdr.msg_iov = &pieces[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t sent = 0;
  for (std::size_t at = 0; !stopping && std::chrono::steady_clock::now() - begin < duration;
       at = (at + kBatch) % kFrames) {
    const int n = sendmmsg(fd, &messages[at], kBatch, 0);
    expect(n >= 0 || errno == ENOBUFS, "send");
    if (n > 0) sent += static_cast<std::uint64_t>(n);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("sent %llu, %.0f a second\n", static_cast<unsigned long long>(sent),
              static_cast<double>(sent) / took.count());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fprintf(stderr,
                 "usage: mad-flood INTERFACE SOURCE DESTINATION MAC CLASS SERVICE SECONDS\n");
    return 2;
  }
  const int fd = raw_socket(argv[1]);
  const Source source(argv[2]);
  const Gid to = ipv4(argv[3]);
  if (!source.is_made_up()) take_answers(source.next());
  const MacAddress from_mac = mac_of(fd, argv[1]), to_mac = mac(argv[4]);
  const bool connects = std::atoi(argv[5]) == 7;
  const std::uint64_t service = std::strtoull(argv[6], nullptr, 16);
  std::mt19937_64 random(std::random_device{}());
  std::vector<std::vector<std::byte>> frames;
  for (std::size_t i = 0; i < kFrames; ++i) {
    const Gid from = source.next();
    const wire::FrameTemplate path(
        {.source_mac = from_mac, .destination_mac = to_mac, .source = from, .destination = to});
    frames.push_back(frame_with(
        connects ? request_to_connect(random, service, from, to) : question(random), path));
  }
  std::signal(SIGTERM, [](int) { stopping = 1; });
  std::puts("running");
  std::fflush(stdout);
  send_for(std::chrono::seconds(std::atoi(argv[7])), fd, frames);
}
