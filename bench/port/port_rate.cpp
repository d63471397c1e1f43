// SPDX-License-Identifier: Apache-2.0

// softhca-port-rate: the rate of a port when no program uses the data. It is the yardstick for the
// daemon on the same port.
//
//   softhca-port-rate send DEVICE BYTES SECONDS   sends datagrams as fast as the port takes them
//   softhca-port-rate count DEVICE BYTES SECONDS  counts datagrams from the first one on
//
// DEVICE: interface=NAME, for a packet socket with trains, or a DPDK device. BYTES: behind each UDP
// header.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/port/dpdk/eal.hpp"
#include "daemon/port/dpdk/open.hpp"
#include "daemon/port/packet/packet_port.hpp"
#include "daemon/roce/wire/frame.hpp"

namespace {

using namespace softhca;
using port::Frame;
using port::Port;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kBurst = 32;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Returns a path to a link address and an IP address that no host has, so that no kernel answers.
wire::FrameTemplate path_from(const MacAddress& mac) {
  return wire::FrameTemplate({.source_mac = mac,
                              .destination_mac = MacAddress{{2, 0, 0, 0, 0, 0x99}},
                              .source = Gid::from_ipv4(0xc6120001),
                              .destination = Gid::from_ipv4(0xc6120002)});
}

/// Sends one frame. False: the port is full.
bool send_frame(Port& port, const wire::FrameTemplate& path, std::uint32_t bytes) {
  Frame frame = port.allocate();
  if (!frame) return false;
  frame.length = static_cast<std::uint32_t>(path.length() + bytes);
  if (frame.capacity < frame.length) {
    std::fprintf(stderr, "the port's frames have room for %u bytes, not for %u\n", frame.capacity,
                 frame.length);
    std::exit(1);
  }
  path.write(frame.data, bytes, 0);
  std::memset(frame.data + path.length(), 0, bytes);
  port.transmit(frame);
  return true;
}

/// Sends as many datagrams as the port takes in one train. False: the port is full.
bool send_train(port::TrainSender& sender, const wire::FrameTemplate& path, std::uint32_t bytes) {
  static std::vector<std::byte> data(64 << 10);
  const port::TrainLimits limits = sender.limits();
  const std::uint32_t packets = std::min(limits.packets, limits.bytes / bytes);
  if (packets == 0) return false;
  std::array<std::byte, wire::kMaxNetworkHeaders> head;
  path.write(head.data(), std::size_t{packets} * bytes, 0);
  const iovec piece{data.data(), std::size_t{packets} * bytes};
  sender.transmit({.head = {head.data(), path.length()},
                   .network = path.link_length(),
                   .pieces = {&piece, 1},
                   .bytes = packets * bytes,
                   .segment = bytes,
                   .packets = packets});
  return true;
}

void send(Port& port, std::uint32_t bytes, double seconds) {
  const wire::FrameTemplate path = path_from(port.mac());
  port::TrainSender* trains = port.trains();
  const std::size_t burst = trains != nullptr ? 2 : kBurst;
  for (const auto start = Clock::now(); since(start) < seconds; port.flush())
    for (std::size_t i = 0; i < burst; ++i)
      if (!(trains != nullptr ? send_train(*trains, path, bytes) : send_frame(port, path, bytes)))
        break;
}

/// Returns the bytes behind UDP headers, received in `seconds` from the first datagram on.
std::uint64_t count(Port& port, std::uint32_t bytes, double seconds) {
  const std::size_t head = path_from(port.mac()).length();
  std::array<Frame, kBurst> frames;
  std::uint64_t counted = 0;
  auto start = Clock::now();
  const auto patience = start;
  while (counted ? since(start) < seconds : since(patience) < 20) {
    const std::size_t n = port.receive(frames);
    std::uint64_t ours = 0;
    for (std::size_t i = 0; i < n; ++i)
      if (frames[i].length >= head + bytes) ours += frames[i].length - head;
    if (!counted && ours) start = Clock::now();
    counted += ours;
    port.release({frames.data(), n});
  }
  return counted;
}

Expected<std::unique_ptr<Port>> open(const std::string& device, std::uint32_t bytes) {
  constexpr std::string_view kInterface = "interface=";
  if (device.starts_with(kInterface))
    return port::PacketPort::open({.interface = device.substr(kInterface.size())});
  port::EalOptions eal;
  eal.program = "softhca-port-rate";
  if (const auto started = port::start_eal(eal); !started) return started.error();
  port::DpdkPortOptions options;
  options.device = device;
  options.mtu = bytes + 48;  // with headers of IPv6 and UDP; vhost-user has no MTU of its own
  return port::open_dpdk_port(options);
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint32_t bytes = argc == 5 ? static_cast<std::uint32_t>(std::atoi(argv[3])) : 0;
  if (bytes == 0 || bytes > 9000) {
    std::fprintf(stderr, "usage: softhca-port-rate send|count DEVICE BYTES SECONDS\n");
    return 2;
  }
  auto port = open(argv[2], bytes);
  if (!port) {
    std::fprintf(stderr, "%s\n", port.error().message.c_str());
    return 1;
  }
  const double seconds = std::atof(argv[4]);
  if (std::string_view(argv[1]) == "send") {
    send(**port, bytes, seconds);
    return 0;
  }
  const auto counted = static_cast<double>(count(**port, bytes, seconds));
  std::printf("count %.0f datagrams/s %.3f Gb/s\n", counted / bytes / seconds,
              counted * 8 / seconds / 1e9);
}
