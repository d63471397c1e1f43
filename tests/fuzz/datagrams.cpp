// SPDX-License-Identifier: Apache-2.0

// What programs that send and receive datagrams ask of the daemon, by connections of their own: any
// requests with any bodies, of several programs of two tenants that send to each other. Each has
// what it registered for alone, and when they end nothing of them is left.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>

#include "daemon/device/adapter/control_clock.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/unit/services/datagram_program.hpp"

namespace softhca::control {
namespace {

using fuzz::Input;
using fuzz::require;

constexpr std::size_t kTenants = 2;
constexpr std::size_t kPrograms = 6;
constexpr int kMostSteps = 64;
constexpr auto kFirstOperation = static_cast<std::uint32_t>(Operation::kOpenDatagramClient);

/// Shares that change at once, and no limit of requests a second: the clock is the real one.
configuration::Config config() {
  configuration::Config config = small_config();
  for (configuration::GeneralServicesConfig* services :
       {&config.general_services, &config.shared_datagrams}) {
    services->buffers = 64;
    services->buffers_per_client = 4;
    services->fixed.tenant_clients = 3;
    services->fixed.send_rate = 0;
    services->fixed.window_ms = 10;
    services->fixed.probation_ms = 0;
    services->fixed.raise_after = 1;
    services->fixed.lower_after = 1;
  }
  return config;
}

struct World {
  Daemon daemon{config()};
  DatagramClients clients{daemon.adapter, *daemon.general_services, *daemon.shared_datagrams};
};

World& world() {
  static World the_world;
  return the_world;
}

const Gid& address_of(std::size_t tenant) {
  return world().daemon.adapter.tenants[tenant]->addresses.front().gid;
}

class Run {
 public:
  explicit Run(Input& input) : input_(input) {}

  void run() {
    for (int i = 0; i < kMostSteps && !input_.done(); ++i) step();
    for (auto& one : programs_) one.reset();
    nothing_is_left();
  }

 private:
  struct One {
    std::optional<Program> program;
    abi::OpenDatagramClientRequest request{};
    std::size_t tenant = 0;
  };

  void step() {
    const std::uint8_t choice = input_.byte() % 16;
    auto& one = programs_[input_.below(kPrograms)];
    if (choice < 3) return open(one);
    if (choice == 3) return one.reset();
    if (choice == 4) return turn();
    if (!one) return;
    if (choice < 9) return send(*one);
    if (choice < 12) return receive(*one);
    if (choice == 12) return set_buffers(*one);
    if (any_record(*one, choice)) return;
    one.reset();  // its connection is over
  }

  void open(std::optional<One>& one) {
    one.reset();
    One made;
    made.tenant = input_.below(kTenants);
    made.request = {.magic = 0,
                    .oldest = 0,
                    .qpn = number(1 + input_.below(2)),
                    .selector = number(0x30 + input_.below(3)),
                    .flags = number(0),
                    .buffers = number(input_.below(12)),
                    .newest = 0};
    made.program.emplace(world().daemon, world().clients, made.tenant, made.request);
    require(made.program->opened >= 0, "a request for a channel is answered");
    if (made.program->opened == 0) one.emplace(std::move(made));
  }

  /// What is given, or now and then any number.
  std::uint32_t number(std::uint32_t usual) {
    switch (input_.byte()) {
      case 0xff:
        return input_.take<std::uint32_t>();
      case 0xfe:
        return input_.byte();
      default:
        return usual;
    }
  }

  /// The engine sends and delivers, and the control thread looks at what came.
  void turn() {
    Daemon& daemon = world().daemon;
    daemon.worker.await_step();
    for (const auto& services : {daemon.general_services.get(), daemon.shared_datagrams.get()}) {
      services->serve();
      if (input_.byte() == 1) services->tick(now(), [](const std::string&, const auto&) {});
    }
  }

  void send(One& one) {
    Program::Message message;
    abi::DatagramHead& head = message.head;
    std::memcpy(head.peer, address_of(input_.below(kTenants)).bytes.data(), sizeof head.peer);
    head.qpn = number(one.request.qpn);
    head.qkey = number(one.request.qpn == abi::kManagementQpn ? engine::kGeneralServicesQkey
                                                              : abi::kProgramQkey);
    head.bytes = number(abi::kDatagramBytes);
    const std::uint32_t to = 0x30 + input_.below(3);
    if (one.request.qpn == abi::kManagementQpn) {
      message.payload[engine::kClassOffset] = std::byte(number(one.request.selector));
      message.payload[engine::kMethodOffset] = std::byte(input_.byte());
    } else {
      message.payload[engine::kSelectorBytes - 1] = std::byte(to);
    }
    // Some bytes of the head are any; the payload is as long as it says, or nearly.
    auto* bytes = reinterpret_cast<std::byte*>(&head);
    for (int n = input_.byte() % 4 - 1; n > 0; --n)
      bytes[input_.below(sizeof head)] = std::byte(input_.byte());
    std::size_t length = std::min<std::size_t>(head.bytes, 4 * abi::kDatagramBytes);
    if (input_.byte() == 0xff) length += input_.byte();
    std::vector<std::byte> body(sizeof head + length);
    std::memcpy(body.data(), &message, std::min(body.size(), sizeof message));
    require(ask(one, Operation::kSendDatagram, body), "an operation of the connection");
    if (error_ == 0)
      require(reply_.empty() && length == head.bytes && length <= abi::kDatagramBytes,
              "what was sent has its length");
  }

  void receive(One& one) {
    abi::DatagramEvent event{};
    Program::Message got;
    event = one.program->take(&got);
    if (event == abi::DatagramEvent::kNothing)
      require(!one.program->readable(), "no signal without anything to take");
    if (event != abi::DatagramEvent::kReceived) return;
    require(got.head.bytes <= abi::kDatagramBytes, "a datagram fits");
    require(std::memcmp(got.head.local, address_of(one.tenant).bytes.data(), 16) == 0,
            "it came to the tenant");
    const auto payload = std::span(got.payload);
    if (one.request.qpn != abi::kManagementQpn) {
      std::uint32_t selector = 0;
      for (const std::byte byte : payload.first<engine::kSelectorBytes>())
        selector = selector << 8 | static_cast<std::uint32_t>(byte);
      require(selector == one.request.selector, "it begins with the number");
      return;
    }
    const bool response = (payload[engine::kMethodOffset] & engine::kResponse) != std::byte{0};
    require(static_cast<std::uint32_t>(payload[engine::kClassOffset]) == one.request.selector &&
                response == ((one.request.flags & abi::kDatagramResponses) != 0),
            "it is of the class and direction");
  }

  void set_buffers(One& one) {
    const abi::HandleBody body{number(input_.below(24)), 0};
    require(ask(one, Operation::kSetDatagramBuffers, std::as_bytes(std::span(&body, 1))),
            "an operation of the connection");
    require(error_ != 0 || reply_.size() == sizeof(abi::DatagramQuotaBody), "it is told its quota");
  }

  /// False: the connection is over.
  bool any_record(One& one, std::uint8_t choice) {
    const auto bytes = std::as_bytes(input_.bytes(input_.take<std::uint16_t>() % abi::kMaxRecord));
    if (choice == 13)
      return ask(one, static_cast<Operation>(kFirstOperation + input_.byte() % 4),
                 bytes.first(std::min(bytes.size(), abi::kMaxRecord - sizeof(abi::RequestHeader))));
    return ask(one, static_cast<Operation>(input_.take<std::uint32_t>()), {});
  }

  /// True: it was answered; what with is in `error_` and `reply_`.
  bool ask(One& one, Operation operation, std::span<const std::byte> body) {
    if (!one.program->send(operation, body)) return false;
    error_ = one.program->receive(reply_);
    require(error_ >= 0, "every request has a reply");
    require(error_ == 0 || reply_.empty(), "an error has no body");
    return true;
  }

  void nothing_is_left() {
    Daemon& daemon = world().daemon;
    for (const auto& services : {daemon.general_services.get(), daemon.shared_datagrams.get()}) {
      const auto& in_use = services->pool_counters().in_use;
      for (int i = 0; i < 1000 && in_use.value() != 0; ++i) {
        services->serve();
        daemon.worker.await_step();
      }
      require(in_use.value() == 0, "all buffers are given back");
      require(services->view().clients.empty(), "no client is left");
    }
    for (const auto& tenant : daemon.adapter.tenants)
      require(tenant->control.accounts.in_use(configuration::Kind::kDescriptors) == 0,
              "nothing is charged");
  }

  Input& input_;
  std::array<std::optional<One>, kPrograms> programs_;
  int error_ = 0;
  std::vector<std::byte> reply_;
};

}  // namespace
}  // namespace softhca::control

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace softhca;
  GTEST_FLAG_SET(break_on_failure, true);  // what Program expects must hold
  fuzz::Input input(data, size);
  control::Run(input).run();
  return 0;
}
