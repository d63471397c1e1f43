// SPDX-License-Identifier: Apache-2.0

#include "daemon/live_records/record_store.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <map>
#include <new>
#include <string>

#include "daemon/base/crc32c.hpp"

namespace softhca::records {
namespace {

constexpr std::size_t kFirstMemory = 256 << 10;
constexpr std::size_t kLargestMemory = 16 << 20;

constexpr std::uint32_t slots_for(std::size_t bytes) {
  return bytes == 0 ? 1 : static_cast<std::uint32_t>((bytes + Slot::kBytes - 1) / Slot::kBytes);
}
/// Two of the largest records.
constexpr std::size_t kReserve = 2 * slots_for(RecordStore::kMaxBytes);
static_assert(kFirstMemory / sizeof(Slot) > kReserve);

std::span<const std::byte> bytes_of(const void* at, std::size_t bytes) {
  return {static_cast<const std::byte*>(at), bytes};
}

std::uint32_t checksum_of(const MemoryHeader& header) {
  return crc32c(bytes_of(&header, offsetof(MemoryHeader, checksum)));
}

std::uint32_t checksum_of(const Slot& slot) {
  constexpr std::size_t kFrom = offsetof(Slot, number);
  return crc32c(bytes_of(reinterpret_cast<const std::byte*>(&slot) + kFrom, sizeof slot - kFrom));
}

SlotState state_of(const Slot& slot) {
  return static_cast<SlotState>(slot.state.load(std::memory_order_acquire));
}

/// The release order makes the rest of the slot precede its state.
void set_state(Slot& slot, SlotState state) {
  slot.state.store(static_cast<std::uint32_t>(state), std::memory_order_release);
}

bool is_head(SlotState state) {
  return state == SlotState::kPrepared || state == SlotState::kLive || state == SlotState::kDying;
}

/// Slots begin behind the header, in the place of the first one.
Slot* slots_in(std::byte* memory) { return reinterpret_cast<Slot*>(memory) + 1; }

std::uint32_t slots_in(std::size_t bytes) {
  return static_cast<std::uint32_t>(bytes / sizeof(Slot) - 1);
}

Error damaged(const std::string& what) {
  return {"records of live objects: " + what +
              "; the adapter cannot take them over, restart the daemon without them",
          EBADMSG};
}

/// Checks the head of a memory. Returns the number of its slots.
Expected<std::uint32_t> check_memory(std::span<const std::byte> memory) {
  if (memory.size() < 2 * sizeof(Slot))
    return damaged("memory of " + std::to_string(memory.size()) + " bytes is too small");
  const auto& header = *reinterpret_cast<const MemoryHeader*>(memory.data());
  if (header.magic != MemoryHeader::kMagic) return damaged("the magic number is wrong");
  if (header.version != MemoryHeader::kVersion)
    return damaged("format " + std::to_string(header.version) + ", this adapter reads format " +
                   std::to_string(MemoryHeader::kVersion));
  if (header.checksum != checksum_of(header)) return damaged("the header is damaged");
  if (header.slot_bytes != sizeof(Slot) || header.slots != slots_in(memory.size()))
    return damaged(std::to_string(header.slots) + " slots of " + std::to_string(header.slot_bytes) +
                   " bytes do not fit a memory of " + std::to_string(memory.size()) + " bytes");
  return header.slots;
}

bool is_known(std::uint32_t kind) { return name_of(static_cast<Kind>(kind)) != nullptr; }

/// Checks a slot by itself. Returns what is wrong; null: nothing.
const char* fault_of(const Slot& slot, SlotState state) {
  if (!is_head(state) && state != SlotState::kPart) return "an unknown state";
  if (slot.checksum != checksum_of(slot)) return "a wrong checksum";
  if (slot.number == 0) return "no number";
  if (slot.size > RecordStore::kMaxBytes) return "too large a body";
  if (slot.place >= slots_for(slot.size)) return "a place beyond its body";
  if (is_head(state) != (slot.place == 0)) return "a state that does not fit its place";
  return nullptr;
}

}  // namespace

void Record::replace(std::span<const std::byte> body) {
  if (store_ != nullptr) store_->replace(number_, body);
}

void Record::set_state(SlotState state) {
  if (store_ != nullptr) store_->set_state(number_, state);
}

void Record::erase() {
  if (store_ != nullptr) std::exchange(store_, nullptr)->erase(number_);
}

// --- what an earlier adapter wrote -----------------------------------------------------------

/// Looks at the slots of an earlier adapter, and changes nothing.
class RecordStore::Check {
 public:
  /// Adds the slots of a memory.
  Outcome add(std::span<std::byte> memory);
  /// Finds the records, each in its latest generation. Call it once, after add().
  Outcome finish();

  std::vector<Slot*> slots;
  std::uint64_t committed = 0;
  std::vector<SlotIndex> unused;  ///< free, or left over from an interrupted change
  Slots not_ended;                ///< heads that an interrupted change was to end
  std::unordered_map<std::uint64_t, Slots> records;
  std::vector<std::uint64_t> numbers;  ///< of the records, ascending
  std::vector<std::uint64_t> unknown;  ///< numbers of records of other kinds
  std::uint64_t last_number = 0;

 private:
  /// One generation of a record.
  struct Version {
    Slots places;
    std::vector<bool> there;  ///< by place
    bool has_head = false;    ///< of a record that has not ended
    bool is_whole() const { return std::ranges::find(there, false) == there.end(); }
  };

  const char* add_to_version(SlotIndex index, SlotState state);
  void leave(const Version& version);

  std::map<std::pair<std::uint64_t, std::uint32_t>, Version> versions_;  ///< number, generation
};

Outcome RecordStore::Check::add(std::span<std::byte> memory) {
  const auto count = check_memory(memory);
  if (!count) return count.error();
  if (slots.empty())
    committed = reinterpret_cast<const MemoryHeader*>(memory.data())
                    ->committed.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < *count; ++i) {
    const auto index = static_cast<SlotIndex>(slots.size());
    slots.push_back(slots_in(memory.data()) + i);
    const SlotState state = state_of(*slots.back());
    if (state == SlotState::kFree)
      unused.push_back(index);
    else if (const char* fault = add_to_version(index, state))
      return damaged("slot " + std::to_string(index) + " has " + fault);
  }
  return {};
}

/// Returns what is wrong; null: nothing.
const char* RecordStore::Check::add_to_version(SlotIndex index, SlotState state) {
  const Slot& slot = *slots[index];
  const std::uint64_t ended = slot.ended.load(std::memory_order_relaxed);
  if (const char* fault = fault_of(slot, state)) return fault;
  if (slot.change > committed + 1 || ended > committed + 1) return "a change that did not begin";
  if (slot.change > committed) {
    unused.push_back(index);
    return nullptr;
  }
  if (ended > committed) not_ended.push_back(index);
  Version& version = versions_[{slot.number, slot.generation}];
  if (version.places.empty()) {
    version.places.resize(slots_for(slot.size));
    version.there.resize(slots_for(slot.size));
  } else {
    const auto known = std::ranges::find(version.there, true) - version.there.begin();
    const Slot& other = *slots[version.places[static_cast<std::size_t>(known)]];
    if (other.size != slot.size || other.kind != slot.kind) return "another size or kind";
  }
  if (version.there[slot.place]) return "the place of another slot";
  version.there[slot.place] = true;
  version.places[slot.place] = index;
  version.has_head |= is_head(state) && (ended == 0 || ended > committed);
  return nullptr;
}

void RecordStore::Check::leave(const Version& version) {
  for (std::size_t place = 0; place < version.places.size(); ++place)
    if (version.there[place]) unused.push_back(version.places[place]);
}

Outcome RecordStore::Check::finish() {
  // From the latest generation of the last record on.
  for (auto at = versions_.rbegin(); at != versions_.rend(); ++at) {
    const auto& [name, version] = *at;
    last_number = std::max(last_number, name.first);
    if (!version.has_head || records.contains(name.first)) {
      leave(version);
      continue;
    }
    if (!version.is_whole())
      return damaged("record " + std::to_string(name.first) + " is not complete");
    records[name.first] = version.places;
    (is_known(slots[version.places.front()]->kind) ? numbers : unknown).push_back(name.first);
  }
  std::ranges::reverse(numbers);
  return {};
}

Outcome RecordStore::check_format(Keeping& keeping) {
  for (KeptId id = keeping.find(KeptRole::kRecords); id != 0;
       id = keeping.find(KeptRole::kRecords, id)) {
    const std::span<std::byte> memory = keeping.memory(id);
    const auto count = check_memory(memory);
    if (!count) return count.error();
    for (Slot& slot : std::span(slots_in(memory.data()), *count)) {
      if (!is_head(state_of(slot))) continue;
      const auto kind = std::atomic_ref(slot.kind).load(std::memory_order_relaxed);
      if (!is_known(kind))
        return damaged("there are records of kind " + std::to_string(kind) +
                       ", which this adapter does not know");
    }
  }
  return {};
}

Outcome RecordStore::adopt() {
  assert(memories_.empty());
  if (keeping_ == nullptr) return {};
  std::vector<std::pair<KeptId, std::span<std::byte>>> memories;
  Check check;
  for (KeptId id = keeping_->find(KeptRole::kRecords); id != 0;
       id = keeping_->find(KeptRole::kRecords, id)) {
    memories.emplace_back(id, keeping_->memory(id));
    if (auto added = check.add(memories.back().second); !added) return added;
  }
  if (auto whole = check.finish(); !whole) return whole;

  for (const auto& [id, mapping] : memories)
    memories_.push_back(SealedMemory::adopt(*keeping_, id, mapping));
  slots_ = std::move(check.slots);
  records_ = std::move(check.records);
  adopted_ = std::move(check.numbers);
  last_number_ = check.last_number;
  committed_ = check.committed;
  free(check.unused);
  for (const SlotIndex index : check.not_ended) slot(index).ended = 0;
  begin();
  for (const std::uint64_t number : check.unknown) erase(number);
  return {};
}

std::vector<Adopted> RecordStore::take_adopted() {
  std::vector<Adopted> all;
  for (const std::uint64_t number : std::exchange(adopted_, {})) {
    const Slots& slots = records_.at(number);
    const Slot& head = slot(slots.front());
    Adopted& adopted = all.emplace_back();
    adopted.kind = static_cast<Kind>(head.kind);
    adopted.state = state_of(head);
    adopted.body.reserve(head.size);
    for (const SlotIndex index : slots) {
      const std::size_t left = head.size - adopted.body.size();
      const auto part =
          std::span(slot(index).body).first(std::min<std::size_t>(left, Slot::kBytes));
      adopted.body.insert(adopted.body.end(), part.begin(), part.end());
    }
    adopted.record = Record(*this, number);
  }
  return all;
}

// --- what this adapter writes ----------------------------------------------------------------

Outcome RecordStore::grow() {
  std::size_t bytes = kFirstMemory;
  if (!memories_.empty()) bytes = std::min(2 * memories_.back().bytes(), kLargestMemory);
  auto memory = SealedMemory::create("softhca-records", bytes);
  if (!memory) return memory.error();
  const std::uint32_t count = slots_in(memory->bytes());
  auto* const header = new (memory->base()) MemoryHeader{.magic = MemoryHeader::kMagic,
                                                         .version = MemoryHeader::kVersion,
                                                         .slot_bytes = sizeof(Slot),
                                                         .slots = count,
                                                         .checksum = 0,
                                                         .committed = 0};
  header->checksum = checksum_of(*header);
  if (auto kept = memory->keep(keeping_, KeptRole::kRecords); !kept) return kept;
  for (std::uint32_t i = 0; i < count; ++i) {
    free_.push_back(static_cast<SlotIndex>(slots_.size()));
    slots_.push_back(slots_in(memory->base()) + i);
  }
  memories_.push_back(std::move(*memory));
  return {};
}

Outcome RecordStore::reserve() {
  if (keeping_ == nullptr || free_.size() >= kReserve) return {};
  return grow();
}

RecordStore::Slots RecordStore::put(std::uint64_t number, std::uint32_t kind,
                                    std::uint32_t generation, std::span<const std::byte> body,
                                    SlotState state) {
  assert(body.size() <= kMaxBytes && free_.size() >= slots_for(body.size()));
  Slots taken(slots_for(body.size()));
  for (SlotIndex& index : taken) {
    index = free_.back();
    free_.pop_back();
  }
  // The head comes last: with its state the record exists.
  for (std::uint32_t place = static_cast<std::uint32_t>(taken.size()); place-- != 0;) {
    Slot& to = slot(taken[place]);
    const std::size_t from = std::size_t{place} * Slot::kBytes;
    const auto part = body.subspan(from, std::min<std::size_t>(body.size() - from, Slot::kBytes));
    to.ended.store(0, std::memory_order_relaxed);
    to.number = number;
    to.kind = kind;
    to.generation = generation;
    to.place = place;
    to.size = static_cast<std::uint32_t>(body.size());
    if (!part.empty()) std::memcpy(to.body.data(), part.data(), part.size());
    std::memset(to.body.data() + part.size(), 0, Slot::kBytes - part.size());
    to.change = depth_ != 0 ? committed_ + 1 : committed_;
    to.checksum = checksum_of(to);
    records::set_state(to, place == 0 ? state : SlotState::kPart);
  }
  return taken;
}

/// Frees the head first, so that the parts that are left mean nothing.
void RecordStore::free(const Slots& slots) {
  for (const SlotIndex index : slots) {
    records::set_state(slot(index), SlotState::kFree);
    free_.push_back(index);
  }
}

Record RecordStore::write(Kind kind, std::span<const std::byte> body, SlotState state) {
  if (keeping_ == nullptr) return {};
  const std::uint64_t number = ++last_number_;
  records_[number] = put(number, static_cast<std::uint32_t>(kind), 0, body, state);
  return Record(*this, number);
}

void RecordStore::replace(std::uint64_t number, std::span<const std::byte> body) {
  Slots& slots = records_.at(number);
  const Slot& head = slot(slots.front());
  Slots made = put(number, head.kind, head.generation + 1, body, state_of(head));
  Slots old = std::exchange(slots, std::move(made));
  if (depth_ == 0 || is_new(old))
    free(old);
  else
    former_.emplace(number, std::move(old));
}

void RecordStore::set_state(std::uint64_t number, SlotState state) {
  records::set_state(slot(records_.at(number).front()), state);
}

void RecordStore::erase(std::uint64_t number) {
  const auto found = records_.find(number);
  Slots slots = std::move(found->second);
  records_.erase(found);
  if (depth_ == 0 || is_new(slots))
    free(slots);
  else
    former_.emplace(number, std::move(slots));
  if (const auto former = former_.find(number); former != former_.end())
    slot(former->second.front()).ended.store(committed_ + 1, std::memory_order_relaxed);
}

MemoryHeader& RecordStore::first_header() const {
  return *reinterpret_cast<MemoryHeader*>(memories_.front().base());
}

void RecordStore::commit() {
  if (depth_ == 0 || --depth_ != 0) return;
  if (!memories_.empty()) first_header().committed.store(++committed_, std::memory_order_release);
  for (const auto& action : std::exchange(after_commit_, {})) action();
  for (const auto& [number, slots] : std::exchange(former_, {})) free(slots);
}

void RecordStore::after_commit(std::function<void()> action) {
  if (depth_ == 0) return action();
  after_commit_.push_back(std::move(action));
}

}  // namespace softhca::records
