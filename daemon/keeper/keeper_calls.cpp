// SPDX-License-Identifier: Apache-2.0

// The calls of the adapter.
#include <signal.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "daemon/base/passed_descriptors.hpp"
#include "daemon/keeper/keeper.hpp"
#include "daemon/keeper/report.hpp"

namespace softhca::keeper {
namespace {

constexpr std::chrono::seconds kTimeToRetire{5};

/// Counts a time without service.
void count(Restarts& restarts, Cause cause, Clock::duration blackout) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(blackout).count();
  const auto ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(blackout).count());
  const auto bound = std::lower_bound(std::begin(kBlackoutBounds), std::end(kBlackoutBounds), ms);
  restarts.blackouts[bound - std::begin(kBlackoutBounds)].fetch_add(1);
  restarts.blackout_ns_sum.fetch_add(ns);
  restarts.last_blackout_ns.store(ns);
  restarts.last_cause.store(static_cast<std::uint32_t>(cause));
  restarts.of[static_cast<std::size_t>(cause)].fetch_add(1);
}

}  // namespace

/// Serves the calls that have come. An adapter that says nonsense gets an error.
void Keeper::serve_calls() {
  std::array<std::byte, sizeof(Call) + kMostText> record;
  for (;;) {
    std::array<UniqueFd, 1> fd;
    if (!adapter_.calls) return;
    const ssize_t got = receive_with_descriptors(adapter_.calls.get(), record, fd, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) return adapter_.calls.reset();  // SIGCHLD tells the rest
    Call call{};
    std::memcpy(&call, record.data(), std::min(sizeof call, static_cast<std::size_t>(got)));
    const std::size_t text =
        static_cast<std::size_t>(got) - std::min(sizeof call, static_cast<std::size_t>(got));
    serve(call, {reinterpret_cast<const char*>(record.data()) + sizeof call, text},
          std::move(fd[0]));
  }
}

void Keeper::serve(const Call& call, std::string_view text, UniqueFd fd) {
  CallReply reply{};
  switch (static_cast<CallKind>(call.kind)) {
    case CallKind::kKeep:
      reply.error = kept_.add(std::move(fd), 0, call.role, reply.id);
      break;
    case CallKind::kKeepMemory:
      reply.error =
          call.bytes == 0 ? EINVAL : kept_.add(std::move(fd), call.bytes, call.role, reply.id);
      break;
    case CallKind::kCloseDescriptor:
      reply.error = kept_.close_descriptor(call.id);
      break;
    case CallKind::kDrop:
      reply.error = kept_.drop(call.id);
      break;
    case CallKind::kReady:
      ready();
      break;
    case CallKind::kUpgrade:
      reply.error = begin_upgrade(text);
      break;
    case CallKind::kRetired:
      if (phase_ == Phase::kRetiring) return retired();
      reply.error = EINVAL;
      break;
    default:
      reply.error = EINVAL;
  }
  ::send(adapter_.calls.get(), &reply, sizeof reply, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void Keeper::ready() {
  if (phase_ != Phase::kStarting) return;
  phase_ = Phase::kServing;
  upgrade_.library.reset();
  engine_watch_.reset();
  control_watch_.reset();
  if (adapter_.cause != Cause::kStart)
    count(shared_->restarts, adapter_.cause, Clock::now() - down_since_);
  has_served_ = true;
  ::sd_notify(0, "READY=1\nSTATUS=serving");
}

/// Begins to try a library. Returns 0, or an errno value if that is not possible now.
int Keeper::begin_upgrade(std::string_view path) {
  if (phase_ != Phase::kServing || upgrade_.trial > 0) return EBUSY;
  auto library = Library::open(path.empty() ? library_.path() : std::string(path));
  if (!library) return errno;
  upgrade_.library = std::move(library);
  start_trial();
  return upgrade_.trial > 0 ? 0 : EAGAIN;
}

/// Takes what the trial of a library says: nothing if it fits, else why not.
void Keeper::take_verdict() {
  std::array<char, kMostText> text{};
  const ssize_t got = ::read(upgrade_.verdict.get(), text.data(), text.size());
  upgrade_.verdict.reset();
  upgrade_.trial = -1;
  const std::string_view why(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  if (phase_ != Phase::kServing) return;
  if (why != kFits) {
    upgrade_.library.reset();
    return order(OrderKind::kRefuseUpgrade, why.empty() ? "its trial has ended early" : why);
  }
  phase_ = Phase::kRetiring;
  down_since_ = Clock::now();
  due_ = down_since_ + kTimeToRetire;
  order(OrderKind::kRetire);
}

void Keeper::order(OrderKind kind, std::string_view text) const {
  std::vector<std::byte> record(sizeof(Order) + text.size());
  const Order head{.kind = static_cast<std::uint32_t>(kind), .reserved = 0};
  std::memcpy(record.data(), &head, sizeof head);
  std::memcpy(record.data() + sizeof head, text.data(), text.size());
  ::send(adapter_.orders.get(), record.data(), record.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace softhca::keeper
