// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/adapter/journal.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace softhca::control {

void Journal::add(JournalEntry entry) {
  entry.number = ++last_;
  if (entry.time == std::chrono::system_clock::time_point{})
    entry.time = std::chrono::system_clock::now();
  if (told_) told_(entry);
  TenantEntries& kept = by_tenant_[entry.tenant];
  kept.entries.push_back(std::move(entry));
  drop_beyond(kept);
}

void Journal::forget(const std::string& tenant) {
  const auto found = by_tenant_.find(tenant);
  if (found == by_tenant_.end()) return;
  gone_.dropped = std::max(gone_.dropped, found->second.dropped);
  std::ranges::move(found->second.entries, std::back_inserter(gone_.entries));
  by_tenant_.erase(found);
  drop_beyond(gone_);
}

void Journal::drop_beyond(TenantEntries& kept) const {
  for (; kept.entries.size() > per_tenant_; kept.entries.pop_front())
    kept.dropped = std::max(kept.dropped, kept.entries.front().number);
}

Journal::Page Journal::after(std::uint64_t after, std::size_t most) const {
  Page page;
  page.last = std::max(after, last_);
  const auto add = [&](const TenantEntries& kept) {
    page.lost |= kept.dropped > after;
    for (const JournalEntry& entry : kept.entries)
      if (entry.number > after) page.entries.push_back(entry);
  };
  for (const auto& [tenant, kept] : by_tenant_) add(kept);
  add(gone_);
  std::ranges::sort(page.entries, {}, &JournalEntry::number);
  if (page.entries.size() > most) {
    page.entries.resize(most);
    page.last = most == 0 ? after : page.entries.back().number;
  }
  std::ranges::stable_sort(page.entries, {}, &JournalEntry::time);
  return page;
}

const JournalEntry* Journal::failure_of(std::uint32_t queue_pair) const {
  const JournalEntry* latest = nullptr;
  const auto look = [&](const TenantEntries& kept) {
    for (const JournalEntry& entry : kept.entries)
      if (entry.queue_pair == queue_pair && entry.kind == "queue_pair_error" &&
          (latest == nullptr || latest->number < entry.number))
        latest = &entry;
  };
  for (const auto& [tenant, kept] : by_tenant_) look(kept);
  look(gone_);
  return latest;
}

}  // namespace softhca::control
