// SPDX-License-Identifier: Apache-2.0

// A process that makes as many objects of a kind as its tenant may have and is killed, beside one
// of another tenant that asks for something small all the time. Says how long the other waited.
//
// usage: hoard SOCKET OTHER-SOCKET KIND COUNT
// KIND: see kKinds. At most COUNT objects are made. Prints how many there were, and the longest
// wait of the other, in us, while nothing happened and while the process ended.
#include <rdma/rdma_user_cm.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "abi/session.hpp"
#include "tests/system/isolation/hostile/channel.hpp"

namespace {

using namespace softhca;
using abi::Operation;
using scribble::Channel;
using scribble::die;
using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kRc = 2, kUd = 4, kXrcReceive = 10;

struct Hoarder {
  explicit Hoarder(const std::string& path) : socket(path), channel(path) {
    channel.greet();
    pd = make(Operation::kAllocPd, abi::HandleBody{});
    abi::CreateCqReply made{};
    if (channel.ask(Operation::kCreateCq, abi::CreateCqRequest{0, 1, abi::kNoHandle}, made) != 0)
      die("completion queue");
    cq = made.handle;
    domain = make(Operation::kOpenXrcDomain, abi::OpenXrcDomainRequest{});
  }
  template <class In>
  std::uint32_t make(Operation operation, const In& request) {
    abi::HandleBody made{};
    if (channel.ask(operation, request, made) != 0) die("the first objects");
    return made.handle;
  }
  int make_qp(std::uint32_t type) {
    return channel.tell(Operation::kCreateQp, abi::CreateQpRequest{.user_handle = 0,
                                                                   .pd = pd,
                                                                   .type = type,
                                                                   .send_cq = cq,
                                                                   .receive_cq = cq,
                                                                   .srq = abi::kNoHandle,
                                                                   .max_send_wr = 1,
                                                                   .max_receive_wr = 1,
                                                                   .max_send_sge = 1,
                                                                   .max_receive_sge = 1,
                                                                   .max_inline = 0,
                                                                   .signal_all = 0,
                                                                   .xrc_domain = domain});
  }
  int make_xrc_srq() {
    const abi::CreateXrcSrqRequest request{
        .srq = {.user_handle = 0, .pd = pd, .max_wr = 1, .max_sge = 1, .limit = 0},
        .xrc_domain = domain,
        .cq = cq};
    for (;;) {  // a segment of rings may come first
      abi::CreateSrqReply made{};
      const int error = channel.ask(Operation::kCreateSrq, request, made);
      if (error != 0 || made.handle != abi::kNoHandle) return error;
    }
  }
  int make_id(bool listens) {
    if (events == nullptr) {
      events = std::make_unique<Channel>(socket);
      const abi::HelloWithLevel hello{{abi::kSessionMagic, {abi::kAbiVersion, 0}}, {}};
      if (events->tell(Operation::kOpenEventChannel, hello) != 0) die("event channel");
    }
    struct {
      abi::ConnectionCommandRequest head{};
      rdma_ucm_create_id body{};
    } create;
    create.head.command = RDMA_USER_CM_CMD_CREATE_ID;
    create.body.uid = 1;
    create.body.ps = RDMA_PS_TCP;
    create.body.qp_type = kRc;
    if (const int error = events->tell(Operation::kConnectionCommand, create)) return error;
    if (!listens) return 0;
    struct {
      abi::ConnectionCommandRequest head{};
      rdma_ucm_listen body{};
    } listen;
    listen.head.command = RDMA_USER_CM_CMD_LISTEN;
    listen.body.id = ids++;
    return events->tell(Operation::kConnectionCommand, listen);
  }

  std::string socket;
  Channel channel;
  std::unique_ptr<Channel> events;
  std::uint32_t pd = 0, cq = 0, domain = 0, ids = 0;
};

struct Kind {
  const char* name;
  int (*make)(Hoarder& hoarder);
};
constexpr Kind kKinds[] = {
    {"queue-pairs", [](Hoarder& h) { return h.make_qp(kRc); }},
    {"datagram-queue-pairs", [](Hoarder& h) { return h.make_qp(kUd); }},
    {"xrc-targets", [](Hoarder& h) { return h.make_qp(kXrcReceive); }},
    {"address-handles",
     [](Hoarder& h) {
       abi::CreateAhRequest request{};
       request.pd = h.pd;
       request.av.is_global = request.av.port_num = 1;
       const std::uint8_t address[] = {0xff, 0xff, 198, 18, 0, 1};
       std::memcpy(request.av.dgid + 10, address, sizeof address);
       return h.channel.tell(Operation::kCreateAh, request);
     }},
    {"memory-regions",
     [](Hoarder& h) {
       return h.channel.tell(Operation::kAllocNullMr, abi::HandleBody{h.pd, 0});
     }},
    {"memory-windows",
     [](Hoarder& h) {
       return h.channel.tell(Operation::kAllocWindow, abi::AllocWindowRequest{h.pd, 1});
     }},
    {"completion-queues",
     [](Hoarder& h) {
       return h.channel.tell(Operation::kCreateCq, abi::CreateCqRequest{0, 1, abi::kNoHandle});
     }},
    {"channels",
     [](Hoarder& h) { return h.channel.tell(Operation::kCreateChannel, abi::HandleBody{}); }},
    {"shared-receive-queues",
     [](Hoarder& h) {
       return h.channel.tell(
           Operation::kCreateSrq,
           abi::CreateSrqRequest{
               .user_handle = 0, .pd = h.pd, .max_wr = 1, .max_sge = 1, .limit = 0});
     }},
    {"xrc-shared-receive-queues", [](Hoarder& h) { return h.make_xrc_srq(); }},
    {"protection-domains",
     [](Hoarder& h) { return h.channel.tell(Operation::kAllocPd, abi::HandleBody{}); }},
    {"xrc-domains",
     [](Hoarder& h) {
       return h.channel.tell(Operation::kOpenXrcDomain, abi::OpenXrcDomainRequest{});
     }},
    {"shared-memory",
     [](Hoarder& h) {
       return h.channel.tell(Operation::kAllocShared, abi::AllocSharedRequest{abi::kPageBytes});
     }},
    {"identifiers", [](Hoarder& h) { return h.make_id(false); }},
    {"listeners", [](Hoarder& h) { return h.make_id(true); }},
};

/// Makes the objects, says how many, and waits for its end.
[[noreturn]] void hoard(const char* socket, const Kind& kind, int most, int pipe) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  Hoarder hoarder(socket);
  int made = 0;
  while (made < most && kind.make(hoarder) == 0) ++made;
  if (::write(pipe, &made, sizeof made) != sizeof made) die("pipe");
  for (;;) ::pause();
}

/// The longest that the other's requests take, in us.
long longest_wait(Channel& other, std::chrono::milliseconds time) {
  Clock::duration longest{};
  for (const auto end = Clock::now() + time; Clock::now() < end;) {
    const auto asked = Clock::now();
    abi::DeviceReply device{};
    if (other.ask(Operation::kQueryDevice, abi::HandleBody{}, device) != 0) die("query");
    longest = std::max(longest, Clock::now() - asked);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return static_cast<long>(std::chrono::duration_cast<std::chrono::microseconds>(longest).count());
}

}  // namespace

int main(int argc, char** argv) {
  const auto* const kind =
      argc != 5 ? std::end(kKinds)
                : std::find_if(std::begin(kKinds), std::end(kKinds),
                               [&](const Kind& each) { return std::string(each.name) == argv[3]; });
  if (kind == std::end(kKinds)) {
    std::fprintf(stderr, "usage: hoard SOCKET OTHER-SOCKET KIND COUNT\nkinds:");
    for (const Kind& each : kKinds) std::fprintf(stderr, " %s", each.name);
    return std::fprintf(stderr, "\n"), 2;
  }
  Channel other(argv[2]);
  other.greet();
  int ends[2];
  if (::pipe(ends) != 0) die("pipe");
  const pid_t hoarder = ::fork();
  if (hoarder == 0) hoard(argv[1], *kind, std::atoi(argv[4]), ends[1]);
  ::close(ends[1]);
  int made = 0;
  if (::read(ends[0], &made, sizeof made) != sizeof made) die("the hoarder");
  const long before = longest_wait(other, std::chrono::milliseconds(300));
  std::thread kill([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ::kill(hoarder, SIGKILL);
  });
  const long during = longest_wait(other, std::chrono::milliseconds(1500));
  kill.join();
  ::waitpid(hoarder, nullptr, 0);
  std::printf("%d made, longest wait %ld us before, %ld us as they ended\n", made, before, during);
}
