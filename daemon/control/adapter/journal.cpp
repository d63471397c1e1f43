#include "daemon/control/adapter/journal.hpp"

#include <algorithm>
#include <utility>

namespace softhca::control {

void Journal::add(JournalEntry entry) {
  entry.number = ++last_;
  if (entry.time == std::chrono::system_clock::time_point{})
    entry.time = std::chrono::system_clock::now();
  TenantEntries& kept = by_tenant_[entry.tenant];
  kept.entries.push_back(std::move(entry));
  if (kept.entries.size() <= per_tenant_) return;
  kept.dropped = kept.entries.front().number;
  kept.entries.pop_front();
}

Journal::Page Journal::after(std::uint64_t after, std::size_t most) const {
  Page page;
  page.last = std::max(after, last_);
  for (const auto& [tenant, kept] : by_tenant_) {
    page.lost |= kept.dropped > after;
    for (const JournalEntry& entry : kept.entries)
      if (entry.number > after) page.entries.push_back(entry);
  }
  std::ranges::sort(page.entries, {}, &JournalEntry::number);
  if (page.entries.size() > most) {
    page.entries.resize(most);
    page.last = most == 0 ? after : page.entries.back().number;
  }
  std::ranges::stable_sort(page.entries, {}, &JournalEntry::time);
  return page;
}

}  // namespace softhca::control
