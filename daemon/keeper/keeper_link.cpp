// SPDX-License-Identifier: Apache-2.0

#include "daemon/keeper/keeper_link.hpp"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "daemon/base/passed_descriptors.hpp"
#include "daemon/base/system_error.hpp"

namespace softhca::keeper {
namespace {

// The control thread does nothing else while it waits.
constexpr std::chrono::seconds kPatience{2};

}  // namespace

KeeperLink::KeeperLink(const Handover& handover)
    : calls_(handover.calls),
      orders_(handover.orders),
      shared_(*handover.shared),
      cause_(static_cast<Cause>(handover.cause)) {
  for (const KeptEntry& entry : std::span(handover.kept, handover.kept_count)) {
    // In a process that this one starts it would outlive its tenant.
    if (entry.address != nullptr) ::madvise(entry.address, entry.bytes, MADV_DONTFORK);
    inherited_.emplace(
        entry.id, Inherited{.fd = UniqueFd(entry.fd),
                            .memory = {entry.address, entry.address != nullptr ? entry.bytes : 0},
                            .role = static_cast<KeptRole>(entry.role)});
  }
}

Expected<KeptId> KeeperLink::call(CallKind kind, const Call& call, int fd, std::string_view text) {
  std::vector<std::byte> record(sizeof call + text.size());
  Call head = call;
  head.kind = static_cast<std::uint32_t>(kind);
  std::memcpy(record.data(), &head, sizeof head);
  std::memcpy(record.data() + sizeof head, text.data(), text.size());
  const std::lock_guard lock(mutex_);
  const bool is_patient = kind != CallKind::kUpgrade;
  const Error no_answer{"the keeper does not answer", ETIMEDOUT};
  CallReply reply{};
  if (is_owed_) {
    if (!is_patient && !is_answered({})) return no_answer;
    receive(reply);
    is_owed_ = false;
  }
  ssize_t got = send_with_descriptors(calls_.get(), record,
                                      std::span(&fd, fd >= 0 ? std::size_t{1} : std::size_t{0}));
  is_owed_ = got > 0 && !is_patient && !is_answered(kPatience);
  if (is_owed_) return no_answer;
  if (got > 0) got = receive(reply);
  if (got != sizeof reply) return Error{"the keeper has gone", EPIPE};
  if (reply.error != 0)
    return Error{std::string("the keeper: ") + std::strerror(reply.error), reply.error};
  return reply.id;
}

bool KeeperLink::is_answered(std::chrono::milliseconds within) const {
  pollfd calls{.fd = calls_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&calls, 1, static_cast<int>(within.count())) > 0;
}

ssize_t KeeperLink::receive(CallReply& reply) const {
  for (;;)
    if (const ssize_t got = ::recv(calls_.get(), &reply, sizeof reply, 0);
        got >= 0 || errno != EINTR)
      return got;
}

Expected<KeptId> KeeperLink::keep(int fd) { return call(CallKind::kKeep, {}, fd); }

Expected<KeptId> KeeperLink::keep_memory(int fd, std::size_t bytes, KeptRole role) {
  return call(CallKind::kKeepMemory,
              {.kind = 0, .role = static_cast<std::uint32_t>(role), .id = 0, .bytes = bytes}, fd);
}

void KeeperLink::close_descriptor(KeptId id) {
  // Without the keeper, nothing is kept.
  [[maybe_unused]] const auto closed =
      call(CallKind::kCloseDescriptor, {.kind = 0, .role = 0, .id = id, .bytes = 0}, -1);
}

void KeeperLink::drop(KeptId id) {
  {
    const std::lock_guard lock(mutex_);
    const auto at = inherited_.find(id);
    if (at != inherited_.end()) {
      at->second.taken = false;
      return;
    }
  }
  [[maybe_unused]] const auto dropped =
      call(CallKind::kDrop, {.kind = 0, .role = 0, .id = id, .bytes = 0}, -1);
}

UniqueFd KeeperLink::descriptor(KeptId id) {
  const std::lock_guard lock(mutex_);
  const auto at = inherited_.find(id);
  if (at == inherited_.end()) return {};
  at->second.taken = true;
  return std::move(at->second.fd);
}

std::span<std::byte> KeeperLink::memory(KeptId id) {
  const std::lock_guard lock(mutex_);
  const auto at = inherited_.find(id);
  if (at == inherited_.end()) return {};
  at->second.taken = true;
  return std::exchange(at->second.memory, {});
}

KeptId KeeperLink::find(KeptRole role, KeptId after) {
  const std::lock_guard lock(mutex_);
  for (auto at = inherited_.upper_bound(after); at != inherited_.end(); ++at)
    if (at->second.role == role) return at->first;
  return 0;
}

void KeeperLink::drop_rest() {
  std::map<KeptId, Inherited> all;
  {
    const std::lock_guard lock(mutex_);
    all.swap(inherited_);
  }
  for (auto& [id, left] : all) {
    if (!left.taken) drop(id);
    // A caller may have taken the descriptor alone.
    if (!left.memory.empty()) ::munmap(left.memory.data(), left.memory.size());
  }
}

void KeeperLink::ready() {
  [[maybe_unused]] const auto told = call(CallKind::kReady, {}, -1);
  is_ready_ = true;
}

Outcome KeeperLink::upgrade(const std::string& library) {
  const auto begun = call(CallKind::kUpgrade, {}, -1, library);
  if (!begun) return begun.error();
  return {};
}

void KeeperLink::retired() {
  [[maybe_unused]] const auto told = call(CallKind::kRetired, {}, -1);
  std::_Exit(0);
}

std::optional<KeeperLink::TakenOrder> KeeperLink::take_order() {
  std::array<char, sizeof(Order) + kMostText> record{};
  const ssize_t got = ::recv(orders_.get(), record.data(), record.size(), 0);
  if (got < static_cast<ssize_t>(sizeof(Order))) return std::nullopt;
  Order order{};
  std::memcpy(&order, record.data(), sizeof order);
  return TakenOrder{
      .kind = static_cast<OrderKind>(order.kind),
      .text = {record.data() + sizeof order, static_cast<std::size_t>(got) - sizeof order}};
}

}  // namespace softhca::keeper
