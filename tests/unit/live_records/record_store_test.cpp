// SPDX-License-Identifier: Apache-2.0

// Records: what an adapter that follows reads, also after an end at any store and after damage.
#include "daemon/live_records/record_store.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "daemon/base/crc32c.hpp"
#include "daemon/live_records/record_body.hpp"
#include "tests/fake_keeper.hpp"
#include "tests/sim/store_trap.hpp"

namespace softhca::records {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

struct Read {
  Kind kind;
  SlotState state;
  std::string text;
  bool operator==(const Read&) const = default;
};

/// An adapter's store. Its end changes nothing that is kept.
struct Generation {
  explicit Generation(FakeKeeper& keeper) : keeping(keeper) {}
  ~Generation() { keeping.retire(); }

  Record write(const std::string& text, Kind kind = Kind::kQueuePair) {
    EXPECT_TRUE(store.reserve());
    return store.write(kind, bytes_of(text));
  }
  void keep(Record record) { records.push_back(std::move(record)); }
  /// Adopts, and keeps all records.
  std::vector<Read> read() {
    std::vector<Read> all;
    const Outcome done = store.adopt();
    EXPECT_TRUE(done) << done.error().message;
    for (Adopted& adopted : store.take_adopted()) {
      all.push_back(
          {adopted.kind, adopted.state,
           std::string(reinterpret_cast<const char*>(adopted.body.data()), adopted.body.size())});
      keep(std::move(adopted.record));
    }
    store.end_restoring();
    return all;
  }
  std::vector<std::string> texts() {
    std::vector<std::string> all;
    for (const Read& each : read()) all.push_back(each.text);
    return all;
  }

  FakeKeeping keeping;
  RecordStore store{&keeping};
  std::vector<Record> records;
};

/// The records of an earlier adapter stay although its objects end here.
class RecordStoreTest : public ::testing::Test {
 protected:
  Generation& next() {
    if (!generations_.empty()) generations_.back()->keeping.retire();
    return *generations_.emplace_back(std::make_unique<Generation>(keeper));
  }
  Slot* slots() { return reinterpret_cast<Slot*>(keeper.records().data()) + 1; }
  std::size_t used() {
    const std::size_t count = keeper.records().size() / sizeof(Slot) - 1;
    return static_cast<std::size_t>(
        std::count_if(slots(), slots() + count, [](const Slot& s) { return s.state != 0; }));
  }
  std::string refusal() {
    Generation& last = next();
    const Outcome adopted = last.store.adopt();
    if (adopted) return "";
    EXPECT_EQ(adopted.error().code, EBADMSG);
    EXPECT_EQ(last.store.size(), 0u);
    return adopted.error().message;
  }

  FakeKeeper keeper;

 private:
  std::vector<std::unique_ptr<Generation>> generations_;
};

TEST(Crc32c, OfTheTextOfTheStandard_IsItsCheckValue) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xe3069283u);
  EXPECT_EQ(crc32c(bytes_of("6789"), crc32c(bytes_of("12345"))), 0xe3069283u);
}

TEST_F(RecordStoreTest, RecordsOfTheEarlierAdapter_AreReadInTheOrderOfMaking) {
  Generation& first = next();
  first.keep(first.write("a session", Kind::kSession));
  Record gone = first.write("gone");
  first.keep(first.write("a queue pair"));
  gone.erase();
  first.keep(first.write("later, in the slot of the one that is gone", Kind::kMemoryRegion));
  EXPECT_EQ(next().read(), (std::vector<Read>{{Kind::kSession, SlotState::kLive, "a session"},
                                              {Kind::kQueuePair, SlotState::kLive, "a queue pair"},
                                              {Kind::kMemoryRegion, SlotState::kLive,
                                               "later, in the slot of the one that is gone"}}));
  EXPECT_EQ(next().texts().size(), 3u) << "by a third adapter, too";
}

TEST_F(RecordStoreTest, ReplacedRecord_KeepsItsPlaceAndItsState) {
  Generation& first = next();
  Record one = first.write("one");
  first.keep(first.write("two"));
  one.set_state(SlotState::kDying);
  ASSERT_TRUE(first.store.reserve());
  one.replace(bytes_of("one, changed"));
  EXPECT_EQ(next().read(), (std::vector<Read>{{Kind::kQueuePair, SlotState::kDying, "one, changed"},
                                              {Kind::kQueuePair, SlotState::kLive, "two"}}));
  EXPECT_EQ(used(), 2u) << "the earlier body is free";
}

TEST_F(RecordStoreTest, BodiesOfAllLengths_AreReadBack) {
  Generation& first = next();
  std::vector<std::string> bodies;
  for (const std::size_t length : {0u, 1u, Slot::kBytes - 1, Slot::kBytes, Slot::kBytes + 1,
                                   3 * Slot::kBytes, std::uint32_t{RecordStore::kMaxBytes}}) {
    std::string& body = bodies.emplace_back(length, 'x');
    for (std::size_t i = 0; i < length; ++i) body[i] = static_cast<char>(i * 7 + length);
    first.keep(first.write(body));
  }
  EXPECT_EQ(next().texts(), bodies);
}

TEST_F(RecordStoreTest, StoreThatGrows_IsReadFromAllItsMemories) {
  Generation& first = next();
  const std::string body(20'000, 'b');
  std::vector<std::string> bodies;
  for (int i = 0; i < 100; ++i) {
    bodies.push_back(body + std::to_string(i));
    first.keep(first.write(bodies.back()));
  }
  EXPECT_EQ(next().texts(), bodies);
  Generation& third = next();
  EXPECT_EQ(third.texts(), bodies);
  third.records.clear();
  EXPECT_EQ(third.store.size(), 0u);
  EXPECT_EQ(next().texts().size(), 0u);
}

TEST_F(RecordStoreTest, RecordThatTheNextAdapterDoesNotTake_IsErased) {
  Generation& first = next();
  first.keep(first.write("one"));
  Generation& second = next();
  ASSERT_TRUE(second.store.adopt());
  EXPECT_EQ(second.store.take_adopted().size(), 1u);
  second.store.end_restoring();
  EXPECT_EQ(second.store.size(), 0u);
  EXPECT_EQ(used(), 0u);
}

TEST_F(RecordStoreTest, AdapterThatFailsToRestore_ErasesNothing) {
  Generation& first = next();
  first.keep(first.write("one"));
  first.keep(first.write("two"));
  Generation& second = next();
  ASSERT_TRUE(second.store.adopt());
  EXPECT_EQ(second.store.take_adopted().size(), 2u);
  EXPECT_EQ(next().texts(), (std::vector<std::string>{"one", "two"}));
}

TEST_F(RecordStoreTest, StoreWithoutAKeeper_WritesNothing) {
  RecordStore store(nullptr);
  EXPECT_TRUE(store.adopt());
  EXPECT_TRUE(store.reserve());
  Record record = store.write(Kind::kSession, bytes_of("text"));
  EXPECT_FALSE(record);
  record.replace(bytes_of("other"));
  record.set_state(SlotState::kDying);
  EXPECT_EQ(store.size(), 0u);
}

TEST_F(RecordStoreTest, KeeperThatIsFull_IsReportedByReserve) {
  Generation& first = next();
  first.keeping.refuse(true);
  const Outcome reserved = first.store.reserve();
  ASSERT_FALSE(reserved);
  EXPECT_EQ(reserved.error().code, EMFILE);
  first.keeping.refuse(false);
  EXPECT_TRUE(first.store.reserve());
}

/// The memory as it was after each store to the state of a slot, the only stores that count.
TEST_F(RecordStoreTest, EndAtAnyStoreOfAChange_LeavesTheStateBeforeOrAfterIt) {
  const std::string before(3 * Slot::kBytes, 'b');
  const std::string after(2 * Slot::kBytes + 5, 'a');
  Generation& first = next();
  Record record = first.write(before);
  first.keep(first.write("other"));
  std::vector<std::byte> old(keeper.records().begin(), keeper.records().end());
  ASSERT_TRUE(first.store.reserve());
  record.replace(bytes_of(after));
  const std::vector<std::byte> now(keeper.records().begin(), keeper.records().end());
  // New parts from the last to the head, then the old head and its parts.
  std::vector<std::size_t> order;
  const auto state_in = [](const std::vector<std::byte>& memory, std::size_t i) {
    std::uint32_t state = 0;
    std::memcpy(&state, memory.data() + (i + 1) * sizeof(Slot), sizeof state);
    return state;
  };
  const auto place_in = [](const std::vector<std::byte>& memory, std::size_t i) {
    std::uint32_t place = 0;
    std::memcpy(&place, memory.data() + (i + 1) * sizeof(Slot) + offsetof(Slot, place),
                sizeof place);
    return place;
  };
  std::vector<std::size_t> made;
  std::vector<std::size_t> freed;
  for (std::size_t i = 0; i + 1 < now.size() / sizeof(Slot); ++i) {
    if (state_in(old, i) == state_in(now, i)) continue;
    (state_in(old, i) == 0 ? made : freed).push_back(i);
  }
  ASSERT_EQ(made.size(), 3u);
  ASSERT_EQ(freed.size(), 3u);
  std::ranges::sort(made, std::greater<>(), [&](std::size_t i) { return place_in(now, i); });
  std::ranges::sort(freed, {}, [&](std::size_t i) { return place_in(old, i); });
  order = made;
  order.insert(order.end(), freed.begin(), freed.end());
  for (std::size_t stores = 0; stores <= order.size(); ++stores) {
    std::ranges::copy(old, keeper.records().begin());
    // The slot that is written next is half there.
    if (stores < made.size())
      std::memcpy(keeper.records().data() + (order[stores] + 1) * sizeof(Slot) + 4,
                  now.data() + (order[stores] + 1) * sizeof(Slot) + 4, 100);
    for (std::size_t i = 0; i < stores; ++i)
      std::memcpy(keeper.records().data() + (order[i] + 1) * sizeof(Slot),
                  now.data() + (order[i] + 1) * sizeof(Slot), sizeof(Slot));
    const std::vector<std::string> texts = next().texts();
    EXPECT_EQ(texts, (std::vector<std::string>{stores < made.size() ? before : after, "other"}))
        << stores << " stores";
    EXPECT_EQ(used(), 4u) << "what was left is free";
  }
}

TEST_F(RecordStoreTest, EndAtAnyStoreOfAChangeOfSeveralRecords_LeavesAllOrNothingOfIt) {
  if (!sim::StoreTrap::kAvailable) GTEST_SKIP() << "needs the single step of x86-64";
  const std::string large(2 * Slot::kBytes, 'l'), larger(3 * Slot::kBytes, 'm');
  Generation& first = next();
  for (const std::string& text : {std::string("ends"), large, std::string("twice")})
    first.keep(first.write(text));
  Generation& second = next();
  ASSERT_EQ(second.texts().size(), 3u);
  FakeKeeper copy;
  Generation(copy).write("").erase();
  bool counts = false;
  std::size_t stores_before = 0, stores_after = 0;
  /// What the next adapter would find.
  const auto look = [&](std::uint64_t) {
    std::ranges::copy(keeper.records(), copy.records().begin());
    ++(counts ? stores_after : stores_before);
    EXPECT_EQ(Generation(copy).texts(), counts
                                            ? (std::vector<std::string>{larger, "2", "new"})
                                            : (std::vector<std::string>{"ends", large, "twice"}));
    return false;
  };
  const auto change = [&] {
    second.store.begin();
    second.records[2].replace(bytes_of("1"));
    second.store.after_commit([&] { counts = true; });
    second.records[0].erase();
    second.write("made and erased").erase();
    second.records[1].replace(bytes_of(larger));
    second.records[2].replace(bytes_of("2"));
    second.keep(second.write("new"));
    EXPECT_FALSE(counts);
    second.store.commit();
    EXPECT_TRUE(counts);
  };
  sim::StoreTrap trap;
  trap.watch(second.keeping.given().front());
  trap.run(change, look);
  EXPECT_GT(stores_before, 100u);
  EXPECT_EQ(stores_after, 4u) << "which free what was replaced";
  EXPECT_EQ(used(), 5u);
}

TEST_F(RecordStoreTest, ChangeWithinAnother_CountsWithIt) {
  Generation& first = next();
  first.keep(first.write("one"));
  Generation& second = next();
  ASSERT_EQ(second.texts().size(), 1u);
  second.store.begin();
  second.store.begin();
  second.keep(second.write("two"));
  second.store.commit();
  bool told = false;
  second.store.after_commit([&] { told = true; });
  EXPECT_FALSE(told);
  EXPECT_EQ(next().texts(), std::vector<std::string>{"one"});
}

TEST_F(RecordStoreTest, DamageToAnyByteOfARecord_IsRefusedOrChangesNothing) {
  Generation& first = next();
  first.keep(first.write(std::string(Slot::kBytes + 30, 'r'), Kind::kSession));
  first.keep(first.write("other"));
  const auto texts = next().texts();
  const std::vector<std::byte> whole(keeper.records().begin(), keeper.records().end());
  std::size_t refused = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    // The free slots have no content yet.
    if (i >= sizeof(Slot) && i % sizeof(Slot) >= sizeof(std::uint32_t) &&
        whole[i / sizeof(Slot) * sizeof(Slot)] == std::byte{0})
      continue;
    std::ranges::copy(whole, keeper.records().begin());
    keeper.records()[i] ^= std::byte{0x55};
    const std::string why = refusal();
    refused += !why.empty();
    if (!why.empty()) continue;
    EXPECT_GE(i, offsetof(MemoryHeader, committed)) << "every byte before it counts";
    EXPECT_LT(i, sizeof(Slot)) << "only the room behind the header does not count";
    EXPECT_EQ(next().texts(), texts);
  }
  EXPECT_GE(refused, offsetof(MemoryHeader, committed) + 3 * sizeof(Slot));
}

/// A slot that is whole by itself, with its own checksum, and does not fit the others.
class ForgedSlotTest : public RecordStoreTest {
 protected:
  ForgedSlotTest() {
    Generation& first = next();
    first.keep(first.write(std::string(2 * Slot::kBytes, 'r'), Kind::kSession));
    first.keep(first.write("known", Kind::kSession));
    for (Slot* slot = slots(); head == nullptr || part == nullptr; ++slot) {
      if (slot->state == static_cast<std::uint32_t>(SlotState::kLive) && slot->number == 1)
        head = slot;
      if (slot->state == static_cast<std::uint32_t>(SlotState::kPart)) part = slot;
    }
  }
  static void seal(Slot& slot) {
    const auto* const at = reinterpret_cast<const std::byte*>(&slot);
    slot.checksum = crc32c({at + offsetof(Slot, number), sizeof slot - offsetof(Slot, number)});
  }
  void seal_header() {
    auto* const header = reinterpret_cast<MemoryHeader*>(keeper.records().data());
    header->checksum =
        crc32c(std::as_bytes(std::span(header, 1)).first(offsetof(MemoryHeader, checksum)));
  }
  MemoryHeader& header() { return *reinterpret_cast<MemoryHeader*>(keeper.records().data()); }

  Slot* head = nullptr;
  Slot* part = nullptr;
};

TEST_F(ForgedSlotTest, UnknownKind_RefusedBeforeAnUpgrade_DroppedAtAStart) {
  EXPECT_TRUE(RecordStore::check_format(next().keeping));
  head->kind = part->kind = 31;
  seal(*head), seal(*part);
  const Outcome fits = RecordStore::check_format(next().keeping);
  ASSERT_FALSE(fits);
  EXPECT_NE(fits.error().message.find("kind 31, which this adapter does not know"),
            std::string::npos);
  EXPECT_TRUE(next().store.adopt()) << "an adapter that fails to restore erases nothing";
  EXPECT_EQ(used(), 3u);
  EXPECT_EQ(next().texts(), std::vector<std::string>{"known"});
  EXPECT_EQ(used(), 1u);
}

TEST_F(ForgedSlotTest, OtherFormat_IsRefusedByItsNumber) {
  ++header().version;
  seal_header();
  EXPECT_NE(refusal().find("format 2, this adapter reads format 1"), std::string::npos);
}

TEST_F(ForgedSlotTest, MoreSlotsThanTheMemoryHas_AreRefused) {
  ++header().slots;
  seal_header();
  EXPECT_NE(refusal().find("do not fit"), std::string::npos);
}

TEST_F(ForgedSlotTest, SizeBeyondTheLargest_IsRefused) {
  head->size = RecordStore::kMaxBytes + 1;
  seal(*head);
  EXPECT_NE(refusal().find("too large"), std::string::npos);
}

TEST_F(ForgedSlotTest, SlotsOfOneRecordThatDiffer_AreRefused) {
  part->size = head->size - 1;
  seal(*part);
  EXPECT_NE(refusal().find("another size or kind"), std::string::npos);
}

TEST_F(ForgedSlotTest, PlaceBeyondTheBody_IsRefused) {
  part->place = 2;
  seal(*part);
  EXPECT_NE(refusal().find("beyond its body"), std::string::npos);
}

TEST_F(ForgedSlotTest, TwoSlotsForOnePlace_AreRefused) {
  Slot& copy = *std::find_if(slots(), slots() + 100, [](const Slot& s) { return s.state == 0; });
  std::memcpy(static_cast<void*>(&copy), part, sizeof copy);
  EXPECT_NE(refusal().find("place of another"), std::string::npos);
}

TEST_F(ForgedSlotTest, HeadInTheStateOfAPart_IsRefused) {
  head->state = static_cast<std::uint32_t>(SlotState::kPart);
  EXPECT_NE(refusal().find("does not fit its place"), std::string::npos);
}

TEST_F(ForgedSlotTest, MissingPart_IsRefused) {
  part->state = 0;
  EXPECT_NE(refusal().find("not complete"), std::string::npos);
}

TEST_F(ForgedSlotTest, RecordWithoutNumber_IsRefused) {
  head->number = part->number = 0;
  seal(*head), seal(*part);
  EXPECT_NE(refusal().find("no number"), std::string::npos);
}

TEST(RecordBody, ReadsWhatWasWritten_AndNothingBeyondIt) {
  BodyWriter writer;
  writer.add(std::uint32_t{7}).add_text("name").add(std::uint64_t{9});
  BodyReader reader(writer.bytes());
  std::uint32_t number = 0;
  std::string text;
  std::uint64_t large = 0;
  ASSERT_TRUE(reader.read(number) && reader.read_text(text));
  ASSERT_TRUE(reader.read(large));
  EXPECT_EQ(number, 7u);
  EXPECT_EQ(text, "name");
  EXPECT_EQ(large, 9u);
  EXPECT_FALSE(reader.read(number));
  for (std::size_t length = 0; length < writer.bytes().size(); ++length) {
    BodyReader cut(writer.bytes().first(length));
    EXPECT_FALSE(cut.read(number) && cut.read_text(text) && cut.read(large)) << length;
  }
}

TEST(RecordBody, ValueThatALaterReleaseAdds_IsOptionalAndWhole) {
  BodyWriter writer;
  writer.add(std::uint32_t{7});
  std::uint32_t number = 0, added = 5;
  BodyReader earlier(writer.bytes());
  EXPECT_TRUE(earlier.read(number) && earlier.read_added(added));
  EXPECT_EQ(added, 5u);
  writer.add(std::uint32_t{8});
  BodyReader later(writer.bytes());
  EXPECT_TRUE(later.read(number) && later.read_added(added));
  EXPECT_EQ(added, 8u);
  BodyReader cut(writer.bytes().first(6));
  EXPECT_TRUE(cut.read(number));
  EXPECT_FALSE(cut.read_added(added)) << "a part of it is damage";
}

}  // namespace
}  // namespace softhca::records
