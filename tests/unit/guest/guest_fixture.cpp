// SPDX-License-Identifier: Apache-2.0

#include "tests/unit/guest/guest_fixture.hpp"

#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "daemon/base/passed_descriptors.hpp"

namespace softhca::guest::test {

namespace fs = std::filesystem;

void send_record(int socket, std::span<const std::byte> bytes, std::vector<int> fds) {
  ASSERT_EQ(send_with_descriptors(socket, bytes, fds), static_cast<ssize_t>(bytes.size()));
}

GuestTest::GuestTest() {
  fs::create_directories(host_.path() + "/vm1/sysfs/class/infiniband/softhca0");
  std::ofstream(host_.path() + "/vm1/sysfs/class/infiniband/softhca0/softhca_socket")
      << host_.path() << "/vm1/socket\n";
  listener_ = std::move(*listen_on(host_.path() + "/vm1/socket", SOCK_SEQPACKET, 0600));
  region_ = UniqueFd(::memfd_create("region", MFD_CLOEXEC));
  EXPECT_EQ(::ftruncate(region_.get(), kRegionBytes), 0);
  EXPECT_TRUE(loop_.open());
  make_machine();
  make_agent();
}

GuestTest::~GuestTest() {
  agent_.reset();
  relay_.reset();
}

void GuestTest::make_machine() {
  std::thread daemon([this] {
    pollfd state{listener_.get(), POLLIN, 0};
    if (::poll(&state, 1, 10'000) != 1) return;
    monitor_ = accept_now();
    std::array<std::byte, 64> record;
    abi::RequestHeader header{};
    const ssize_t got = ::recv(monitor_.get(), record.data(), record.size(), 0);
    if (got != sizeof header) return;
    std::memcpy(&header, record.data(), sizeof header);
    struct {
      abi::ReplyHeader header;
      abi::TakeMachineReply body;
    } reply{{header.tag, 0}, {kRegionBytes}};
    send_record(monitor_.get(), bytes_of(reply), {region_.get()});
  });
  auto machine = Machine::take(host_.path() + "/vm1/socket");
  daemon.join();
  ASSERT_TRUE(machine) << machine.error().message;
  machine_.emplace(std::move(*machine));
  relay_ = std::make_unique<Relay>(
      loop_, *machine_,
      RelayOptions{.folder = host_.path() + "/vm1", .tenant = "vm1", .seal = false}, report_);
}

void GuestTest::make_agent() {
  auto region = Region::open("/proc/self/fd/" + std::to_string(region_.get()));
  ASSERT_TRUE(region) << region.error().message;
  guest_region_.emplace(std::move(*region));
  AgentOptions options{.runtime_directory = guest_.path(),
                       .group = std::nullopt,
                       .open_channel = [this]() -> Expected<UniqueFd> {
                         int ends[2];
                         EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
                         if (tap_) tap_(ends[1]);
                         relay_->connect(UniqueFd(ends[1]));
                         return UniqueFd(ends[0]);
                       },
                       .serving = [this] { ++served_; }};
  agent_ = std::make_unique<Agent>(loop_, *guest_region_, std::move(options), report_);
}

/// Answers a kStartMachine.
void GuestTest::answer_monitor() {
  struct {
    abi::RequestHeader header;
    abi::StartMachineRequest body;
  } request;
  if (!monitor_ || ::recv(monitor_.get(), &request, sizeof request, MSG_DONTWAIT) != sizeof request)
    return;
  starts_.push_back(request.body);
  struct {
    abi::ReplyHeader header;
    abi::StartMachineReply body;
  } reply{{request.header.tag, start_error_}, start_reply_};
  const auto bytes = bytes_of(reply);
  std::vector<int> fds;
  if (proxy_) fds.push_back(proxy_.get());
  send_record(monitor_.get(), bytes.first(start_error_ == 0 ? bytes.size() : sizeof reply.header),
              fds);
}

bool GuestTest::run_until(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    if (relay_ != nullptr) relay_->flush();
    if (agent_ != nullptr) agent_->flush();
    answer_monitor();
    EXPECT_TRUE(loop_.step(1));
  }
  return true;
}

void GuestTest::settle() {
  int turns = 0;
  run_until([&] { return ++turns > 40; });
}

void GuestTest::start() {
  const int before = served_;
  agent_->begin();
  ASSERT_TRUE(run_until([&] { return served_ > before; }));
}

UniqueFd GuestTest::accept_now() {
  return UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
}

UniqueFd GuestTest::accept_daemon() {
  pollfd state{listener_.get(), POLLIN, 0};
  if (!run_until([&] { return ::poll(&state, 1, 0) == 1; })) return {};
  return accept_now();
}

GuestTest::Pair GuestTest::connect_pair(const std::string& name) {
  auto program = connect_to(guest_.path() + "/vm1/" + name, SOCK_SEQPACKET);
  EXPECT_TRUE(program);
  if (!program) return {};
  return {.program = std::move(*program), .daemon = accept_daemon()};
}

std::optional<ReplyRecord> GuestTest::receive(const UniqueFd& socket) {
  pollfd state{socket.get(), POLLIN, 0};
  if (!run_until([&] { return ::poll(&state, 1, 0) == 1; })) return std::nullopt;
  return receive_reply(socket.get(), MSG_DONTWAIT);
}

bool GuestTest::is_closed(const UniqueFd& socket) {
  return run_until([&] {
    std::byte byte;
    const ssize_t got = ::recv(socket.get(), &byte, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN);
  });
}

UniqueFd GuestTest::pass(const Pair& pair, int fd) {
  const abi::ReplyHeader header{1, 0};
  send_record(pair.daemon.get(), bytes_of(header), {fd});
  auto reply = receive(pair.program);
  if (!reply || reply->fds.size() != 1) return {};
  return std::move(reply->fds[0]);
}

std::optional<ReplyRecord> GuestTest::call(const UniqueFd& socket, abi::Operation operation,
                                           std::span<const std::byte> body) {
  send_record(socket.get(), request_record(operation, 77, body));
  return receive(socket);
}

}  // namespace softhca::guest::test
