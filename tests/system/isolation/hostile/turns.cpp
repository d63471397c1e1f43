// SPDX-License-Identifier: Apache-2.0

// Processes of one tenant that register memory, over and over, beside one of another tenant that
// asks for something small. Says how often each was served meanwhile.
//
// usage: turns SOCKET OTHER-SOCKET SESSIONS REQUESTS
// SESSIONS processes at SOCKET go on until the one at OTHER-SOCKET has made REQUESTS.
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/system/isolation/hostile/channel.hpp"

namespace {

using namespace softhca;
using scribble::Channel;
using scribble::die;

// Without a page: to look for pages there takes the daemon a while all the same.
constexpr std::uint64_t kBytes = 64 << 20;

class Registering {
 public:
  explicit Registering(const std::string& socket) : channel_(socket) {
    channel_.greet();
    abi::HandleBody made{};
    if (channel_.ask(abi::Operation::kAllocPd, abi::HandleBody{}, made) != 0) die("pd");
    abi::AllocSharedReply shared{};
    if (channel_.ask(abi::Operation::kAllocShared, abi::AllocSharedRequest{kBytes}, shared) != 0)
      die("shared memory");
    request_ = {
        {4096, kBytes, 4096, 1, made.handle, 1, 0},
        {4096, kBytes, 0, shared.handle, static_cast<std::uint32_t>(abi::ExtentKind::kShared)}};
  }
  void once() {
    abi::RegisterMrReply region{};
    if (channel_.ask(abi::Operation::kRegisterMr, request_, region) != 0) die("memory region");
    if (channel_.tell(abi::Operation::kDeregisterMr, abi::HandleBody{region.handle, 0}) != 0)
      die("the end of a memory region");
  }

 private:
  Channel channel_;
  struct {
    abi::RegisterMrRequest region;
    abi::MrExtent extent;
  } request_{};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5)
    return std::fprintf(stderr, "usage: turns SOCKET OTHER-SOCKET SESSIONS REQUESTS\n"), 2;
  Channel other(argv[2]);
  other.greet();
  std::vector<std::unique_ptr<Registering>> processes;
  for (int i = std::atoi(argv[3]); i > 0; --i)
    processes.push_back(std::make_unique<Registering>(argv[1]));

  std::atomic<std::uint64_t> registered{0};
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (const auto& process : processes)
    threads.emplace_back([&] {
      while (!over) {
        process->once();
        ++registered;
      }
    });
  while (registered < processes.size()) std::this_thread::yield();
  const std::uint64_t before = registered;
  const int requests = std::atoi(argv[4]);
  for (int i = 0; i < requests; ++i) {
    abi::DeviceReply device{};
    if (other.ask(abi::Operation::kQueryDevice, abi::HandleBody{}, device) != 0) die("query");
  }
  const std::uint64_t meanwhile = registered - before;
  over = true;
  for (std::thread& thread : threads) thread.join();
  std::printf("%d requests, %" PRIu64 " registrations meanwhile\n", requests, meanwhile);
}
