// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/connections/connection_admission.hpp"

#include <algorithm>

namespace softhca::management::rdma_cm {

void ConnectionAdmission::set(const std::vector<Part>& parts, std::uint32_t most) {
  most_ = most;
  for (auto& [level, entry] : entries_) {
    entry.carries = 0;
    entry.shares = true;
    entry.is_part = level.empty();
  }
  for (const Part& part : parts) {
    Entry& entry = entries_[part.level];
    entry.carries = part.carries;
    entry.shares = part.shares;
    entry.is_part = true;
  }
  std::erase_if(entries_,
                [](const auto& it) { return !it.second.is_part && it.second.admitted == 0; });
}

void ConnectionAdmission::rename(const std::string& from, const std::string& to) {
  if (auto entry = entries_.extract(from)) {
    entry.key() = to;
    entries_.insert(std::move(entry));
  }
  decltype(half_open_) renamed;
  for (const auto& [of, count] : half_open_)
    renamed[{of.first == from ? to : of.first, of.second}] = count;
  half_open_ = std::move(renamed);
}

/// Returns the connections that the part of no level supports.
std::uint32_t ConnectionAdmission::beyond_levels() const {
  std::uint32_t sum = 0;
  for (const auto& [level, entry] : entries_) {
    const std::uint32_t own = level.empty() ? 0 : entry.carries;
    if (entry.admitted > own) sum += entry.admitted - own;
  }
  return sum;
}

std::uint32_t ConnectionAdmission::room(const std::string& level, const Entry& entry) const {
  const auto left = [](std::uint32_t of, std::uint32_t used) { return of > used ? of - used : 0; };
  std::uint64_t room = level.empty() ? 0 : left(entry.carries, entry.admitted);
  if (entry.shares) room += left(entries_.at("").carries, beyond_levels());
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(room, left(most_, admitted_)));
}

bool ConnectionAdmission::take(const std::string& level) {
  Entry& entry = entries_[level];
  if (room(level, entry) == 0) {
    ++entry.refused;
    return false;
  }
  ++entry.admitted;
  ++admitted_;
  return true;
}

/// True if another peer sent a request while requests of this one may still be half-open. Records
/// the request.
bool ConnectionAdmission::others_ask(const Gid& peer, Time now) {
  constexpr Duration kLately = std::chrono::minutes(1);
  if (latest_ && latest_->peer != peer) before_ = latest_;
  latest_ = {peer, now};
  return before_ && now - before_->at < kLately;
}

ConnectionAdmission::Verdict ConnectionAdmission::take_half_open(const std::string& level,
                                                                 const Gid& peer,
                                                                 const Gid& counted_as, Time now) {
  const bool contended = others_ask(peer, now);
  const auto has = half_open_.find({level, counted_as});
  Entry& entry = entries_[level];
  const std::uint32_t left = room(level, entry);
  if (contended && left != 0 && has != half_open_.end() && has->second >= left)
    return Verdict::kLater;
  const bool mostly_half_open = entry.admitted != 0 && 2 * entry.half_open >= entry.admitted;
  if (contended && left == 0 && mostly_half_open) return Verdict::kLater;
  if (!take(level)) return Verdict::kNotCarried;
  ++half_open_[{level, counted_as}];
  ++entry.half_open;
  return Verdict::kTaken;
}

void ConnectionAdmission::restore(const std::string& level, const std::optional<Gid>& half_open) {
  Entry& entry = entries_[level];
  ++entry.admitted;
  ++admitted_;
  if (!half_open) return;
  ++half_open_[{level, *half_open}];
  ++entry.half_open;
}

void ConnectionAdmission::close_half(const std::string& level, const Gid& peer) {
  const auto has = half_open_.find({level, peer});
  if (--has->second == 0) half_open_.erase(has);
  --entries_.at(level).half_open;
}

void ConnectionAdmission::give_back(const std::string& level) {
  const auto found = entries_.find(level);
  --found->second.admitted;
  --admitted_;
  if (!found->second.is_part && found->second.admitted == 0) entries_.erase(found);
}

std::vector<ConnectionAdmission::View> ConnectionAdmission::view() const {
  std::vector<View> views;
  for (const auto& [level, entry] : entries_)
    views.push_back({level, entry.carries, entry.admitted, entry.refused});
  return views;
}

}  // namespace softhca::management::rdma_cm
