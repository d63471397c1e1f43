// softhca-port-rate: what a DPDK port carries when nobody does anything with the frames. The
// yardstick for what the daemon carries over the same port.
//
//   softhca-port-rate send DEVICE BYTES SECONDS   sends frames as fast as the port takes them
//   softhca-port-rate count DEVICE BYTES SECONDS  counts frames of BYTES from the first on
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "daemon/port/dpdk/eal.hpp"
#include "daemon/port/dpdk/open.hpp"

namespace {

using softhca::port::Frame;
using softhca::port::Port;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kBurst = 32;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// A frame that no kernel answers: broadcast, of the ether type for local experiments.
void fill(Frame& frame, std::uint32_t bytes) {
  std::memset(frame.data, 0, bytes);
  std::memset(frame.data, 0xff, 6);
  frame.data[6] = std::byte{2};
  frame.data[12] = std::byte{0x88};
  frame.data[13] = std::byte{0xb5};
  frame.length = bytes;
}

std::uint64_t send(Port& port, std::uint32_t bytes, double seconds) {
  const auto start = Clock::now();
  std::uint64_t sent = 0;
  while (since(start) < seconds) {
    for (std::size_t i = 0; i < kBurst; ++i) {
      Frame frame = port.allocate();
      if (!frame || frame.capacity < bytes) {
        if (frame) port.release({&frame, 1});
        break;
      }
      fill(frame, bytes);
      port.transmit(frame);
      ++sent;
    }
    port.flush();
  }
  return sent;
}

std::uint64_t count(Port& port, std::uint32_t bytes, double seconds) {
  std::array<Frame, kBurst> frames;
  std::uint64_t counted = 0;
  auto start = Clock::now();
  const auto patience = start;
  while (counted ? since(start) < seconds : since(patience) < 20) {
    const std::size_t n = port.receive(frames);
    const auto ours = static_cast<std::uint64_t>(
        std::count_if(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(n),
                      [&](const Frame& f) { return f.length == bytes; }));
    if (!counted && ours) start = Clock::now();
    counted += ours;
    port.release({frames.data(), n});
  }
  return counted;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: softhca-port-rate send|count DEVICE BYTES SECONDS\n");
    return 2;
  }
  softhca::port::EalOptions eal;
  eal.program = "softhca-port-rate";
  softhca::port::DpdkPortOptions options;
  options.device = argv[2];
  if (const auto started = softhca::port::start_eal(eal); !started) {
    std::fprintf(stderr, "%s\n", started.error().message.c_str());
    return 1;
  }
  auto port = softhca::port::open_dpdk_port(options);
  if (!port) {
    std::fprintf(stderr, "%s\n", port.error().message.c_str());
    return 1;
  }
  const auto bytes = static_cast<std::uint32_t>(std::atoi(argv[3]));
  const double seconds = std::atof(argv[4]);
  const bool sender = std::string_view(argv[1]) == "send";
  const std::uint64_t frames =
      sender ? send(**port, bytes, seconds) : count(**port, bytes, seconds);
  const double rate = static_cast<double>(frames) / seconds;
  std::printf("%s %.0f frames/s %.3f Gb/s\n", argv[1], rate, rate * bytes * 8 / 1e9);
  return 0;
}
