// SPDX-License-Identifier: Apache-2.0

// The calls of the adapter.
#include <signal.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "daemon/base/passed_descriptors.hpp"
#include "daemon/keeper/keeper.hpp"

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
    const std::size_t head = std::min(sizeof(Call), static_cast<std::size_t>(got));
    Call call{};
    std::memcpy(&call, record.data(), head);
    CallReply reply{};
    const auto error = serve(
        call,
        {reinterpret_cast<const char*>(record.data()) + head, static_cast<std::size_t>(got) - head},
        std::move(fd[0]), reply.id);
    if (!error) continue;  // it was the last call of this adapter
    reply.error = *error;
    ::send(adapter_.calls.get(), &reply, sizeof reply, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

/// Serves a call. Returns 0, with `id` of what is kept, or an errno value. Nothing: no reply.
std::optional<int> Keeper::serve(const Call& call, std::string_view text, UniqueFd fd,
                                 std::uint64_t& id) {
  switch (static_cast<CallKind>(call.kind)) {
    case CallKind::kKeep:
      return kept_.add(std::move(fd), 0, call.role, id);
    case CallKind::kKeepMemory:
      return call.bytes == 0 ? EINVAL : kept_.add(std::move(fd), call.bytes, call.role, id);
    case CallKind::kCloseDescriptor:
      return kept_.close_descriptor(call.id);
    case CallKind::kDrop:
      return kept_.drop(call.id);
    case CallKind::kReady:
      return ready(), 0;
    case CallKind::kUpgrade:
      return begin_upgrade(text);
    case CallKind::kRetired:
      if (phase_ != Phase::kRetiring) return EINVAL;
      return retired(), std::nullopt;
  }
  return EINVAL;
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
  if (stop_signal_ != 0) return stop(stop_signal_);
  ::sd_notify(0, "READY=1\nSTATUS=serving");
}

/// Begins to try a library. Returns 0, or an errno value if that is not possible now. If it cannot
/// be opened, orders say so.
int Keeper::begin_upgrade(std::string_view path) {
  if (phase_ != Phase::kServing || upgrade_.trial > 0) return EBUSY;
  std::string why;
  upgrade_.library = Library::open(path.empty() ? installed_ : std::string(path), why);
  if (!upgrade_.library) {
    order(OrderKind::kRefuseUpgrade, why);
    return 0;
  }
  start_trial();
  if (upgrade_.trial > 0) return 0;
  upgrade_.library.reset();
  return EAGAIN;
}

/// Takes what the trial of a library says: kFits, or why it does not.
void Keeper::take_verdict() {
  std::array<char, kMostText> text{};
  const ssize_t got = ::read(upgrade_.verdict.get(), text.data(), text.size());
  end_trial(got > 0 ? std::string_view(text.data(), static_cast<std::size_t>(got))
                    : "its trial has ended early");
}

void Keeper::drop_trial() {
  if (upgrade_.trial > 0) ::kill(upgrade_.trial, SIGKILL);
  upgrade_.trial = -1;
  upgrade_.verdict.reset();
}

void Keeper::end_trial(std::string_view verdict) {
  drop_trial();
  if (phase_ != Phase::kServing) return;
  if (verdict != kFits) {
    upgrade_.library.reset();
    return order(OrderKind::kRefuseUpgrade, verdict);
  }
  phase_ = Phase::kRetiring;
  down_since_ = Clock::now();
  due_ = down_since_ + kTimeToRetire;
  order(OrderKind::kRetire);
}

void Keeper::order(OrderKind kind, std::string_view text) const {
  const Order head{.kind = static_cast<std::uint32_t>(kind), .reserved = 0};
  std::string record(reinterpret_cast<const char*>(&head), sizeof head);
  record += text;
  ::send(adapter_.orders.get(), record.data(), record.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace softhca::keeper
