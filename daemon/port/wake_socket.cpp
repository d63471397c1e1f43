#include "daemon/port/wake_socket.hpp"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>

#include "daemon/port/roce_udp.hpp"

namespace softhca::port {
namespace {

constexpr std::uint32_t kProtocolIcmp6 = 58;

/// Classic BPF. Jumps count instructions to skip; the labels of the comments are their targets.
const sock_filter kWakeFilter[] = {
    BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),                     // 0: EtherType
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_ARP, 13, 0),      // 1: -> 15 take
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 6),        // 2: else -> 9
    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 14 + 9),                 // 3: IPv4 protocol
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kProtocolUdp, 0, 11),   // 4: else -> 16 drop
    BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14),                    // 5: x = IPv4 header length
    BPF_STMT(BPF_LD | BPF_H | BPF_IND, 14 + 2),                 // 6: UDP destination port
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kRocePort, 7, 0),       // 7: -> 15 take
    BPF_JUMP(BPF_JMP | BPF_JA, 7, 0, 0),                        // 8: -> 16 drop
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 0, 6),      // 9: else -> 16 drop
    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 14 + 6),                 // 10: IPv6 next header
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kProtocolIcmp6, 3, 0),  // 11: -> 15 take
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kProtocolUdp, 0, 3),    // 12: else -> 16 drop
    BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 14 + 40 + 2),            // 13: UDP destination port
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kRocePort, 0, 1),       // 14: else -> 16 drop
    BPF_STMT(BPF_RET | BPF_K, 1),                               // 15: take one byte
    BPF_STMT(BPF_RET | BPF_K, 0),                               // 16: drop
};

Error failure(const char* what) {
  return {std::string("cannot listen for frames to wake on: ") + what + ": " + std::strerror(errno),
          errno};
}

/// The filter goes on before the socket is bound, so that no other frame slips in.
bool set_up_packets(int fd, int interface_index) {
  const sock_fprog program{static_cast<unsigned short>(std::size(kWakeFilter)),
                           const_cast<sock_filter*>(kWakeFilter)};
  const int least = 1;  // the kernel raises it to its minimum: a few frames
  const int on = 1;
  if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) < 0) return false;
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &least, sizeof least) < 0) return false;
  // Older kernels show our own frames too: a needless wake-up, no more.
  (void)setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on);
  sockaddr_ll where{};
  where.sll_family = AF_PACKET;
  where.sll_protocol = htons(ETH_P_ALL);
  where.sll_ifindex = interface_index;
  if (bind(fd, reinterpret_cast<sockaddr*>(&where), sizeof where) < 0) return false;
  packet_mreq all{};
  all.mr_ifindex = interface_index;
  all.mr_type = PACKET_MR_ALLMULTI;
  return setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) == 0;
}

bool watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

Expected<WakeSocket> WakeSocket::open(int interface_index) {
  WakeSocket s;
  s.packets_ = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (s.packets_ < 0) return failure("packet socket (needs CAP_NET_RAW)");
  if (!set_up_packets(s.packets_, interface_index)) return failure("packet socket");
  s.event_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  s.wait_ = epoll_create1(EPOLL_CLOEXEC);
  if (s.event_ < 0 || s.wait_ < 0 || !watch(s.wait_, s.packets_) || !watch(s.wait_, s.event_))
    return failure("epoll");
  return s;
}

WakeSocket::WakeSocket(WakeSocket&& other) noexcept
    : packets_(std::exchange(other.packets_, -1)),
      event_(std::exchange(other.event_, -1)),
      wait_(std::exchange(other.wait_, -1)) {}

WakeSocket& WakeSocket::operator=(WakeSocket&& other) noexcept {
  std::swap(packets_, other.packets_);
  std::swap(event_, other.event_);
  std::swap(wait_, other.wait_);
  return *this;
}

WakeSocket::~WakeSocket() {
  for (int fd : {wait_, event_, packets_})
    if (fd >= 0) close(fd);
}

void WakeSocket::drain() {
  char byte;
  // An error other than "empty" (the interface went down) is reported once and cleared by reading.
  while (recv(packets_, &byte, 1, MSG_DONTWAIT | MSG_TRUNC) >= 0 || errno == ENETDOWN) {
  }
  eventfd_t count;
  (void)eventfd_read(event_, &count);
}

void WakeSocket::poke() { (void)eventfd_write(event_, 1); }

}  // namespace softhca::port
