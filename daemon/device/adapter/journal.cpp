// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/adapter/journal.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "daemon/live_records/record_body.hpp"

namespace softhca::control {
namespace {

void write(records::BodyWriter& body, const JournalEntry& entry) {
  body.add(entry.number).add(entry.time.time_since_epoch().count()).add_text(entry.kind);
  body.add_text(entry.tenant).add_text(entry.text).add(entry.queue_pair).add(entry.process);
  body.add_text(entry.peer).add(entry.peer_queue_pair).add_text(entry.cause);
  body.add(entry.vendor_error).add(static_cast<std::uint32_t>(entry.past.size()));
  for (const PastEvent& past : entry.past) body.add(past);
}

bool read(records::BodyReader& body, JournalEntry& entry) {
  std::chrono::system_clock::rep time = 0;
  std::uint32_t past = 0;
  if (!body.read(entry.number) || !body.read(time) || !body.read_text(entry.kind) ||
      !body.read_text(entry.tenant) || !body.read_text(entry.text) ||
      !body.read(entry.queue_pair) || !body.read(entry.process) || !body.read_text(entry.peer) ||
      !body.read(entry.peer_queue_pair) || !body.read_text(entry.cause) ||
      !body.read(entry.vendor_error) || !body.read(past))
    return false;
  entry.time = std::chrono::system_clock::time_point(std::chrono::system_clock::duration(time));
  for (; past != 0; --past)
    if (!body.read(entry.past.emplace_back())) return false;
  return true;
}

}  // namespace

Outcome Journal::keep(records::RecordStore& records, std::span<records::Adopted> left) {
  records_ = &records;
  for (records::Adopted& each : left) {
    if (each.kind != records::Kind::kJournalEntry) continue;
    records::BodyReader body(each.body);
    JournalEntry entry;
    if (!read(body, entry)) return Error{"the record of a journal entry is damaged", EBADMSG};
    last_ = std::max(last_, entry.number);
    TenantEntries& kept = by_tenant_[entry.tenant];
    kept.entries.push_back({std::move(entry), std::move(each.record)});
    drop_beyond(kept);
  }
  return {};
}

/// An entry that finds no room is not recorded.
records::Record Journal::record(const JournalEntry& entry) const {
  if (records_ == nullptr || !records_->reserve()) return {};
  records::BodyWriter body;
  write(body, entry);
  if (body.bytes().size() > records::RecordStore::kMaxBytes) return {};
  return records_->write(records::Kind::kJournalEntry, body.bytes());
}

void Journal::add(JournalEntry entry) {
  entry.number = ++last_;
  if (entry.time == std::chrono::system_clock::time_point{})
    entry.time = std::chrono::system_clock::now();
  if (told_) told_(entry);
  TenantEntries& kept = by_tenant_[entry.tenant];
  records::Record recorded = record(entry);
  kept.entries.push_back({std::move(entry), std::move(recorded)});
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
    kept.dropped = std::max(kept.dropped, kept.entries.front().entry.number);
}

Journal::Page Journal::after(std::uint64_t after, std::size_t most,
                             const std::string& tenant) const {
  Page page;
  page.last = std::max(after, last_);
  const auto add = [&](const TenantEntries& kept) {
    page.lost |= kept.dropped > after;
    for (const auto& [entry, record] : kept.entries)
      if (entry.number > after) page.entries.push_back(entry);
  };
  for (const auto& [name, kept] : by_tenant_)
    if (tenant.empty() || name == tenant) add(kept);
  if (tenant.empty()) add(gone_);
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
    for (const auto& [entry, record] : kept.entries)
      if (entry.queue_pair == queue_pair && entry.kind == "queue_pair_error" &&
          (latest == nullptr || latest->number < entry.number))
        latest = &entry;
  };
  for (const auto& [tenant, kept] : by_tenant_) look(kept);
  look(gone_);
  return latest;
}

}  // namespace softhca::control
