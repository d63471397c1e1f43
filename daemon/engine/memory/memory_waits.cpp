// SPDX-License-Identifier: Apache-2.0

#include "daemon/engine/memory/memory_waits.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "daemon/engine/memory/memory_proxy.hpp"

namespace softhca::engine {
namespace {

constexpr std::size_t kProxies = 1024;    ///< more tenants than an engine has
constexpr std::size_t kWokenAtOnce = 32;  ///< in a poll step

}  // namespace

void MemoryWaits::open() {
  if (is_open()) return;
  logs_.resize(kLogs);
  free_.reserve(kLogs);
  for (std::size_t i = kLogs; i-- > 0;) free_.push_back(static_cast<std::uint16_t>(i));
  busy_.reserve(kProxies);
  ready_.reserve(std::size_t{4} * queue_pairs_);
  packets_.open();
  waiters_.resize(std::size_t{2} * queue_pairs_);
}

// --- steps

void MemoryWaits::begin_step(std::uint32_t waiter, std::uint64_t id) {
  assert(waiter_ == kNobody);
  waiter_ = waiter;
  step_ = id;
  at_ = 0;
  busy_step_ = false;
}

void MemoryWaits::end_step() {
  Waiter& waiter = waiters_[std::exchange(waiter_, kNobody)];
  if (!busy_step_) drop(waiter);
  waiter.waits = busy_step_;
}

MemoryWaits::Next MemoryWaits::wait() {
  busy_step_ = true;
  return Next::kWait;
}

MemoryWaits::Next MemoryWaits::next(const MemoryProxy& proxy, const What& what) {
  if (waiter_ == kNobody) return Next::kNow;
  Waiter& waiter = waiters_[waiter_];
  if (waiter.log == kNoLog) return Next::kBegin;
  Log& log = logs_[waiter.log];
  // The log of another step cannot be used, nor one of this step for other memory.
  const bool same =
      log.step == step_ && (at_ == log.count || (log.entries[at_].proxy.get() == &proxy &&
                                                 log.entries[at_].what.hash == what.hash &&
                                                 log.entries[at_].what.bytes == what.bytes));
  if (!same) {
    if (log.is_pending()) return wait();
    cut(log, log.step == step_ ? at_ : 0);
    log.step = step_;
    return Next::kBegin;
  }
  if (at_ == log.count) return log.count < kMost ? Next::kBegin : Next::kNow;
  if (!log.entries[at_].done) return wait();
  found_ = &log.entries[at_++];
  return Next::kDone;
}

std::uint32_t MemoryWaits::begin(std::shared_ptr<MemoryProxy> proxy, const What& what,
                                 std::uint32_t place) {
  Waiter& waiter = waiters_[waiter_];
  if (waiter.log == kNoLog) {
    if (free_.empty()) return kNobody;
    waiter.log = free_.back();
    free_.pop_back();
    logs_[waiter.log].step = step_;
  }
  Log& log = logs_[waiter.log];
  log.entries[log.count++] = {.proxy = std::move(proxy), .what = what, .place = place};
  busy_step_ = true;
  return waiter_;
}

/// Makes the step wait for room. It gives up what it has had read, since steps that wait for room
/// could otherwise hold all of it. Returns kNow if an access must not be repeated.
MemoryWaits::Next MemoryWaits::wait_for_room() {
  Waiter& waiter = waiters_[waiter_];
  if (waiter.log != kNoLog) {
    const Log& log = logs_[waiter.log];
    for (std::size_t i = 0; i < log.count; ++i)
      if (!log.entries[i].what.repeats) return Next::kNow;
  }
  drop(waiter);
  if (!waiter.for_room.linked()) for_room_.push_back(waiters_.data(), waiter_);
  return wait();
}

// --- accesses that are done

bool MemoryWaits::completed(std::uint32_t waiter, Verdict verdict, bool keeps) {
  Log& log = logs_[waiters_[waiter].log];
  Entry& entry = log.entries[log.count - 1];
  entry.done = true;
  entry.verdict = verdict;
  keeps = keeps && verdict == Verdict::kOk;
  if (!keeps) entry.place = kNoPlace;
  has_room_ = true;
  wake(waiter);
  return keeps;
}

void MemoryWaits::wake(std::uint32_t waiter) {
  waiters_[waiter].waits = false;
  ready_.push_back(waiter / 2);
}

void MemoryWaits::collect() {
  for (std::size_t i = busy_.size(); i-- > 0;) {
    if (busy_[i]->collect()) continue;
    busy_[i]->left();
    std::swap(busy_[i], busy_.back());
    busy_.pop_back();
  }
  if (!for_room_.empty() && (has_room_ || busy_.empty())) wake_for_room();
}

/// Wakes steps that wait for room. A tenant decides how many wait, so those beyond a few are woken
/// in the next poll steps.
void MemoryWaits::wake_for_room() {
  for (std::size_t i = 0; i < kWokenAtOnce && !for_room_.empty(); ++i)
    wake(for_room_.pop_front(waiters_.data()));
  has_room_ = !for_room_.empty();
}

void MemoryWaits::settle_all() {
  for (const auto& proxy : busy_) proxy->settle();
}

void MemoryWaits::settle(const MemoryCounters& of, bool all) {
  for (const auto& proxy : busy_)
    if (proxy->counts_for(of) && (all || proxy->writes())) proxy->settle();
  if (!all) return;
  std::erase_if(busy_, [&](const auto& proxy) {
    if (!proxy->counts_for(of)) return false;
    proxy->left();
    return true;
  });
}

// --- accesses that are not needed any more

/// Drops the accesses of the log from number `from` on.
void MemoryWaits::cut(Log& log, std::size_t from) {
  for (std::size_t i = from; i < log.count; ++i) {
    Entry& entry = log.entries[i];
    if (entry.place != kNoPlace) entry.proxy->give_back(entry.place);
    entry = {};
  }
  log.count = from;
  has_room_ = true;
}

void MemoryWaits::drop(Waiter& waiter) {
  if (waiter.log == kNoLog) return;
  cut(logs_[waiter.log], 0);
  free_.push_back(std::exchange(waiter.log, kNoLog));
}

void MemoryWaits::drop_done(std::uint32_t at) {
  Waiter& waiter = waiters_[at];
  if (waiter.log == kNoLog) return;
  const Log& log = logs_[waiter.log];
  if (log.is_pending()) return;
  for (std::size_t i = 0; i < log.count; ++i)
    if (!log.entries[i].what.repeats) return;
  drop(waiter);
}

void MemoryWaits::forget_side(std::uint32_t at) {
  Waiter& waiter = waiters_[at];
  drop(waiter);
  waiter.waits = false;
  if (waiter.for_room.linked()) for_room_.remove(waiters_.data(), at);
}

void MemoryWaits::forget(Tenant& tenant, std::uint32_t slot) {
  if (!is_open()) return;
  forget_side(waiter_of(slot, Side::kSend));
  forget_side(waiter_of(slot, Side::kReceive));
  packets_.clear(tenant, slot);
}

}  // namespace softhca::engine
