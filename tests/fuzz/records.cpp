// SPDX-License-Identifier: Apache-2.0

// Records of an earlier adapter with any content. An adapter refuses them as a whole, or reads
// records that the next one reads, too.
#include "daemon/live_records/record_store.hpp"

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/base/crc32c.hpp"
#include "tests/fake_keeper.hpp"
#include "tests/fuzz/input.hpp"

namespace softhca::records {
namespace {

using fuzz::Input;
using fuzz::require;

using Bodies = std::vector<std::vector<std::byte>>;

/// An adapter. Its records stay until the end of the run.
struct Life {
  explicit Life(FakeKeeper& keeper) : keeping(keeper) {}
  ~Life() { keeping.retire(); }

  /// Reads the records. Returns false if they are refused.
  bool take_over() {
    if (!store.adopt()) {
      require(store.size() == 0, "refused records are not taken");
      return false;
    }
    for (Adopted& adopted : store.take_adopted()) {
      require(name_of(adopted.kind) != nullptr, "the kind is known");
      require(adopted.body.size() <= RecordStore::kMaxBytes, "the body is not too large");
      bodies.push_back(std::move(adopted.body));
      records.push_back(std::move(adopted.record));
    }
    require(store.size() == records.size(), "all records are taken");
    return true;
  }
  static std::vector<std::byte> body_of(Input& input) {
    const auto bytes = std::as_bytes(input.bytes(input.take<std::uint16_t>() % 1000));
    return {bytes.begin(), bytes.end()};
  }
  void change(Input& input) {
    require(static_cast<bool>(store.reserve()), "there is room");
    const std::size_t at = input.below(16);
    if (at >= records.size()) {
      bodies.push_back(body_of(input));
      records.push_back(store.write(Kind::kSession, bodies.back()));
    } else if (input.flag()) {
      bodies[at] = body_of(input);
      records[at].replace(bodies[at]);
    } else {
      bodies.erase(bodies.begin() + static_cast<std::ptrdiff_t>(at));
      records.erase(records.begin() + static_cast<std::ptrdiff_t>(at));
    }
  }

  FakeKeeping keeping;
  RecordStore store{&keeping};
  Bodies bodies;
  std::vector<Record> records;
};

/// Damages a slot and, mostly, makes its checksum fit again.
void damage(Slot& slot, Input& input) {
  const auto set = [&](auto& field) { field = input.take<std::decay_t<decltype(field)>>(); };
  constexpr SlotState kStates[] = {SlotState::kFree, SlotState::kPart, SlotState::kPrepared,
                                   SlotState::kLive, SlotState::kDying};
  switch (input.below(8)) {
    case 0:
      slot.state = static_cast<std::uint32_t>(kStates[input.below(std::size(kStates))]);
      break;
    case 1:
      slot.state = input.take<std::uint32_t>();
      break;
    case 2:
      slot.number = input.below(8);
      break;
    case 3:
      slot.kind = input.below(64);
      break;
    case 4:
      slot.generation = input.below(4);
      break;
    case 5:
      slot.place = input.below(8);
      break;
    case 6:
      set(slot.size);
      break;
    default:
      set(slot.body[input.below(Slot::kBytes)]);
  }
  const auto* const at = reinterpret_cast<const std::byte*>(&slot);
  if (input.below(8) != 0)
    slot.checksum = crc32c({at + offsetof(Slot, number), sizeof slot - offsetof(Slot, number)});
}

}  // namespace
}  // namespace softhca::records

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace softhca::records;
  softhca::fuzz::Input input(data, size);
  softhca::FakeKeeper keeper;
  std::vector<std::unique_ptr<Life>> lives;
  lives.push_back(std::make_unique<Life>(keeper));
  for (unsigned changes = input.below(16); changes != 0; --changes) lives.back()->change(input);
  while (!input.done() && lives.size() < 16) {
    const auto memory = keeper.records();
    if (!memory.empty()) {
      auto* const slots = reinterpret_cast<Slot*>(memory.data()) + 1;
      // The slots in use are the last ones, as the store takes them from the end.
      const std::size_t count = memory.size() / sizeof(Slot) - 1;
      for (unsigned times = input.below(4); times != 0; --times)
        damage(slots[count - 1 - input.below(32)], input);
      if (input.below(8) == 0) memory[input.below(sizeof(MemoryHeader))] ^= std::byte{1};
    }
    Life& life = *lives.emplace_back(std::make_unique<Life>(keeper));
    if (!life.take_over()) break;
    // What one adapter has read and changed, the next one reads.
    for (unsigned changes = input.below(8); changes != 0; --changes) life.change(input);
    Life& next = *lives.emplace_back(std::make_unique<Life>(keeper));
    softhca::fuzz::require(next.take_over(), "records that an adapter wrote are not refused");
    softhca::fuzz::require(next.bodies == life.bodies, "the next adapter reads the same records");
  }
  return 0;
}
