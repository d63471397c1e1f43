// SPDX-License-Identifier: Apache-2.0

// An adapter that does what its arguments say, for tests of the keeper: SCENARIO [LIBRARY]. It
// writes a line on standard output for each start.
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "daemon/base/passed_descriptors.hpp"
#include "daemon/base/sealed_memory.hpp"
#include "daemon/keeper/fault_signals.hpp"
#include "daemon/keeper/keeper_link.hpp"

namespace {

using namespace softhca;
using keeper::Cause;
using keeper::KeeperLink;

constexpr std::size_t kBytes = 1 << 16;
constexpr const char* kCauses[] = {"start", "upgrade", "crash", "hang", "rollback"};

void say(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void require(bool holds, const char* what) {
  if (holds) return;
  say(std::string("wrong: ") + what);
  std::_Exit(99);
}

[[noreturn]] void die() {
  ::kill(::getpid(), SIGKILL);
  std::abort();
}

/// Keeps sealed memory with a text in it, and a pipe with a text in it.
void give(KeeperLink& keeper) {
  auto memory = SealedMemory::create("kept", kBytes);
  require(bool(memory), "memory");
  const auto id = keeper.keep_memory(memory->fd(), kBytes, KeptRole::kRecords);
  require(bool(id), "keep memory");
  require(bool(SealedMemory::seal_holes(memory->fd())), "seal");
  keeper.close_descriptor(*id);
  int ends[2];
  require(::pipe(ends) == 0 && ::write(ends[1], "in the pipe", 11) == 11, "pipe");
  const auto pipe = keeper.keep(ends[0]);
  require(bool(pipe), "keep a pipe");
  std::memcpy(memory->base(), &*pipe, sizeof *pipe);
  std::strcpy(reinterpret_cast<char*>(memory->base()) + 64, "sealed");
  // What is dropped does not come back.
  const auto dropped = keeper.keep_memory(memory->fd(), kBytes, KeptRole::kEngine);
  require(!dropped && dropped.error().code == EPERM, "a mapping of sealed memory for writing");
  const auto other = keeper.keep(ends[0]);
  require(bool(other), "keep again");
  keeper.drop(*other);
}

/// Takes up what give() left: a sealed memory is written to, which no new mapping could be.
void take_up(KeeperLink& keeper) {
  const KeptId id = keeper.find(KeptRole::kRecords, 0);
  require(id != 0 && keeper.find(KeptRole::kRecords, id) == 0, "one memory of records");
  require(keeper.find(KeptRole::kEngine, 0) == 0, "what could not be kept");
  require(!keeper.descriptor(id), "a closed descriptor");
  const std::span<std::byte> memory = keeper.memory(id);
  require(memory.size() == kBytes, "its size");
  char* const text = reinterpret_cast<char*>(memory.data()) + 64;
  require(std::string_view(text) == "sealed", "its contents");
  text[0] = 'S';
  text[0] = 's';
  KeptId pipe = 0;
  std::memcpy(&pipe, memory.data(), sizeof pipe);
  const UniqueFd end = keeper.descriptor(pipe);
  std::array<char, 16> read{};
  require(::read(end.get(), read.data(), read.size()) == 11, "the pipe");
  keeper.drop_rest();
}

keeper::OrderKind await_order(KeeperLink& keeper) {
  const auto order = keeper.take_order();
  require(order.has_value(), "an order");
  if (!order->text.empty()) say("order: " + order->text);
  return order->kind;
}

/// Says nonsense to the keeper, as an adapter that a tenant has taken over might.
[[noreturn]] void lie(const keeper::Handover& handover, unsigned seed) {
  std::mt19937 random(seed);
  const int null = ::open("/dev/null", O_RDWR);
  const int memory = ::memfd_create("lie", MFD_ALLOW_SEALING);
  require(null >= 0 && memory >= 0 && ::ftruncate(memory, 8192) == 0, "something to pass");
  for (int i = 0; i < 20000; ++i) {
    std::array<std::byte, sizeof(keeper::Call) + 64> record{};
    for (std::byte& byte : record) byte = static_cast<std::byte>(random());
    keeper::Call call{};
    std::memcpy(&call, record.data(), sizeof call);
    call.kind = random() % 12;
    if (call.kind == static_cast<std::uint32_t>(keeper::CallKind::kReady) && i < 10000) continue;
    if (random() % 2 != 0) call.id = random() % 64;
    if (random() % 2 != 0) call.bytes = random() % 3 * 4096;
    std::memcpy(record.data(), &call, sizeof call);
    const std::array<int, 2> fds = {null, memory};
    const std::size_t bytes = 1 + random() % record.size();
    while (send_with_descriptors(handover.calls, std::span(record).first(bytes),
                                 std::span(fds).subspan(random() % 2, random() % 2)) < 0)
      require(errno == EAGAIN, "the keeper goes on");
    // It may leave its answers, too.
    std::array<std::byte, 64> reply;
    while (::recv(handover.calls, reply.data(), reply.size(), MSG_DONTWAIT) > 0) {
    }
  }
  std::memset(static_cast<void*>(handover.shared), 0xff, sizeof *handover.shared);
  die();
}

/// Asks a keeper that stands still for an upgrade, and goes on with it then.
void ask_in_vain(KeeperLink& keeper) {
  const pid_t process = ::getppid();
  ::kill(process, SIGSTOP);
  for (int i = 0; i < 2; ++i) {
    const auto begun = keeper.upgrade("");
    require(!begun && begun.error().code == ETIMEDOUT, "no answer");
  }
  ::kill(process, SIGCONT);
  require(bool(keeper.keep(STDIN_FILENO)), "the answer to the next call");
  require(await_order(keeper) == keeper::OrderKind::kRetire, "the upgrade, late");
  keeper.retired();
}

/// Upgrades to the other library, crashes with it, and upgrades to the installed one. `other`: a
/// link, which it removes.
void change_libraries(KeeperLink& keeper, const std::string& other) {
  Dl_info self{};
  require(::dladdr(kCauses, &self) != 0 && !std::string_view(self.dli_fname).starts_with("/proc/"),
          "a path with the libraries that it needs");
  keeper.ready();
  if (keeper.restarts().of[static_cast<int>(Cause::kUpgrade)].load() == 2) std::_Exit(0);
  if (keeper.cause() == Cause::kUpgrade) ::unlink(other.c_str());
  if (keeper.cause() == Cause::kUpgrade) die();
  require(bool(keeper.upgrade(keeper.cause() == Cause::kStart ? other : "")), "an upgrade");
  if (await_order(keeper) == keeper::OrderKind::kRetire) keeper.retired();
}

/// Waits for SIGTERM, and says so.
[[noreturn]] void await_end() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  int signal = 0;
  ::sigwait(&set, &signal);
  say(::strsignal(signal));
  std::_Exit(3);
}

/// Has the keeper try a library, and ends with it or by SIGTERM.
void await_end_in_trial(KeeperLink& keeper, const std::string& library) {
  require(bool(keeper.upgrade(library)), "a trial");
  say("waits");
  std::thread(await_end).detach();
  require(!keeper.take_order(), "the keeper has ended");
}

/// Retires while the keeper is told to end.
[[noreturn]] void end_in_upgrade(KeeperLink& keeper, const std::string& library) {
  require(bool(keeper.upgrade(library)), "an upgrade");
  require(await_order(keeper) == keeper::OrderKind::kRetire, "to retire");
  ::kill(::getppid(), SIGTERM);
  ::usleep(100'000);
  keeper.retired();
}

/// Becomes ready, and does what ends the adapter in a way of its own.
int serve(KeeperLink& keeper, std::string_view scenario, const std::string& library) {
  keeper.ready();
  keeper.engine_pulse().begin();
  if (scenario == "crash" || scenario == "always") die();
  if (scenario == "end") return 0;
  if (scenario == "fail") return 7;
  if (scenario == "signals") {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGHUP, SIGTERM}) sigaddset(&set, signal);
    keeper.engine_pulse().fall_asleep();
    say("waits");
    for (int signal = 0; signal != SIGTERM; say(::strsignal(signal))) ::sigwait(&set, &signal);
    return 3;
  }
  if (scenario == "orphan") {
    say("waits");
    require(!keeper.take_order() && !keeper.keep(STDIN_FILENO), "the keeper has ended");
    say("the keeper has gone");
  }
  if (scenario.ends_with("stop")) ::kill(::getpid(), SIGSTOP);
  if (scenario == "spin")
    for (volatile bool forever = true; forever;) {
    }
  if (scenario == "block") ::pause();
  if (scenario == "sleep") keeper.engine_pulse().fall_asleep();
  if (scenario == "sleep") ::sleep(2);
  if (scenario == "in-vain") ask_in_vain(keeper);
  if (scenario == "end-in-trial") await_end_in_trial(keeper, library);
  if (scenario == "crash-in-trial") require(bool(keeper.upgrade(library)), "a trial");
  if (scenario == "crash-in-trial") die();
  if (scenario == "end-in-upgrade") end_in_upgrade(keeper, library);
  if (scenario == "upgrade-by-signal") {
    for (int i = 0; i < (library.empty() ? 1 : 2); ++i)
      ::kill(::getppid(), SIGUSR1), ::usleep(1000);
    if (await_order(keeper) == keeper::OrderKind::kRetire) keeper.retired();
  }
  if (scenario == "upgrade" || scenario == "upgrade-again") {
    keeper.engine_pulse().fall_asleep();
    if (const auto begun = keeper.upgrade(library); !begun) {
      say("refused: " + begun.error().message);
      return 0;
    }
    if (await_order(keeper) == keeper::OrderKind::kRetire) keeper.retired();
    if (scenario == "upgrade-again") return serve(keeper, "upgrade", "");
  }
  return 0;
}

/// Ends twice by a fault while a thread works on something; the third adapter ends well. Each says
/// what it is told of the earlier ones.
int have_faults(KeeperLink& keeper, std::string_view how) {
  constexpr Subject kQueuePair(Subject::Kind::kQueuePair, 5),
      kConnection(Subject::Kind::kConnection, 7);
  const keeper::Restarts& restarts = keeper.restarts();
  Pulse &engine = keeper.engine_pulse(), &control = keeper.control_pulse();
  keeper::show_fault_signals(engine, control);
  const Subject culprit = keeper.culprit();
  const bool is_first = keeper.cause() == Cause::kStart;
  if (how == "starting" && !is_first) {
    const bool is_last = culprit == kConnection;
    say(is_last ? "the connection" : "nothing");
    if (is_last) return 0;
    control.work_on(kConnection);
    std::abort();
  }
  keeper.ready();
  say(culprit == kQueuePair    ? "the queue pair"
      : culprit == kConnection ? "the connection"
                               : "nothing");
  if (restarts.of[static_cast<int>(Cause::kCrash)].load() +
          restarts.of[static_cast<int>(Cause::kHang)].load() ==
      2)
    return 0;
  static int* volatile nowhere = nullptr;
  if (how == "control" || how == "starting" || how == "elsewhere") {
    control.begin();
    control.work_on(kConnection);
    if (how == "elsewhere") std::thread(std::abort).join();
    std::abort();
  }
  engine.begin();
  control.work_on(kConnection);
  if (how == "request") *nowhere = 0;
  engine.work_on(how == "differs" && is_first ? Subject(Subject::Kind::kQueuePair, 4) : kQueuePair);
  if (how == "outside") die();
  if (how == "sent" && ::fork() == 0) {
    ::kill(::getppid(), SIGSEGV);
    ::_exit(0);
  }
  if (how == "sent") ::pause();
  if (how == "hang") ::pause();
  if (how == "stop") ::kill(::getpid(), SIGSTOP);
  *nowhere = 0;
  return 1;
}

}  // namespace

extern "C" [[gnu::visibility("default")]] int softhca_adapter(const keeper::Handover* handover,
                                                              int argc, char** argv) {
  const std::string scenario = argc > 1 ? argv[1] : "";
  const std::string library = argc > 2 ? argv[2] : "";
  const auto cause = static_cast<Cause>(handover->cause);
  say(std::string(kCauses[handover->cause]) + NOTE);
  // Its lies may bring an upgrade about, and that another one.
  if (scenario == "lie" && (cause == Cause::kUpgrade || cause == Cause::kRollback)) die();
  if (scenario == "lie") lie(*handover, static_cast<unsigned>(std::atoi(library.c_str())));
  KeeperLink keeper(*handover);
  if (scenario == "usage") return 2;
  if (scenario == "faults") return have_faults(keeper, library);
  if (scenario == "libraries" && cause == Cause::kStart) give(keeper);
  if (scenario == "libraries") change_libraries(keeper, library);
  if (cause == Cause::kStart) {
    give(keeper);
    return serve(keeper, scenario, library);
  }
  if (scenario == "always") die();
  if (scenario == "always-stop") keeper.ready();
  if (scenario == "always-stop") ::kill(::getpid(), SIGSTOP);
  take_up(keeper);
  keeper.ready();
  const keeper::Restarts& restarts = keeper.restarts();
  require(restarts.of[handover->cause].load() == 1, "the restart is counted");
  require(restarts.last_blackout_ns.load() > (cause == Cause::kHang ? 240'000'000u : 0u),
          "the time without service");
  say("served");
  pollfd orders{.fd = keeper.orders(), .events = POLLIN, .revents = 0};
  if (scenario == "crash-in-trial") require(::poll(&orders, 1, 1000) == 0, "no order");
  if (scenario == "end-in-upgrade") await_end();
  return 0;
}

extern "C" [[gnu::visibility("default")]] bool softhca_adapter_fits(
    const keeper::Handover* handover, int, char**, char* why, std::size_t room) {
  KeeperLink keeper(*handover);
  if (keeper.find(KeptRole::kRecords, 0) != 0) return true;
  std::snprintf(why, room, "it has found no records");
  return false;
}
