// SPDX-License-Identifier: Apache-2.0

// Reading the kernel's list of mappings.
#include <gtest/gtest.h>

#include <cstring>
#include <string_view>

#include "libverbs-provider/share/fixed_hash_table.hpp"
#include "tests/unit/libverbs-provider/share/fake_daemon.hpp"

namespace softhca::provider {
namespace {

bool parse(std::string_view line, Mapping& mapping) {
  return parse_mapping(line.data(), line.data() + line.size(), mapping);
}

TEST(Maps, ReadsALine) {
  Mapping mapping;
  ASSERT_TRUE(parse("7f0f427af000-7f0f427b0000 rw-s 0001f000 fe:1a 320476       /memfd:x (deleted)",
                    mapping));
  EXPECT_EQ(mapping.begin, 0x7f0f427af000u);
  EXPECT_EQ(mapping.end, 0x7f0f427b0000u);
  EXPECT_EQ(mapping.offset, 0x1f000u);
  EXPECT_EQ(mapping.device_major, 0xfeu);
  EXPECT_EQ(mapping.device_minor, 0x1au);
  EXPECT_EQ(mapping.inode, 320476u);
  EXPECT_TRUE(mapping.readable && mapping.writable && mapping.shared);
  EXPECT_FALSE(mapping.executable);
  EXPECT_EQ(mapping.kind, MappingKind::kOther);
}

TEST(Maps, TellsKindsApart) {
  const auto kind = [](std::string_view name) {
    Mapping mapping{};
    EXPECT_TRUE(parse(std::string("1000-2000 rw-p 00000000 00:00 0 ").append(name), mapping));
    return mapping.kind;
  };
  EXPECT_EQ(kind(""), MappingKind::kAnonymous);
  EXPECT_EQ(kind("            [heap]"), MappingKind::kAnonymous);
  EXPECT_EQ(kind("            [anon:glibc: malloc]"), MappingKind::kAnonymous);
  EXPECT_EQ(kind("            [stack]"), MappingKind::kStack);
  EXPECT_EQ(kind("            [vvar]"), MappingKind::kOther);
  Mapping mapping{};
  ASSERT_TRUE(parse("1000-2000 rw-p 00000000 00:10 99 /anon_hugepage (deleted)", mapping));
  EXPECT_EQ(mapping.kind, MappingKind::kOther);
}

TEST(Maps, RefusesWhatIsNoLine) {
  Mapping mapping;
  for (const char* line : {"", "1000", "1000-2000", "1000-2000 rw", "1000-2000 rw-p x 00:00 0",
                           "1000-2000 rw-p 0 00-00 0", "-2000 rw-p 0 00:00 0"}) {
    EXPECT_FALSE(parse(line, mapping)) << line;
  }
}

TEST(Maps, FindsEveryMappingInOrder) {
  Anonymous memory(400);
  for (std::size_t page = 0; page < 400; page += 2) {
    ::mprotect(memory.base() + page * kPage, kPage, PROT_READ);
  }
  const auto begin = reinterpret_cast<std::uint64_t>(memory.base());
  MapsReader maps;
  Mapping mapping;
  std::uint64_t last = 0;
  std::size_t found = 0;
  while (maps.next(mapping)) {
    EXPECT_GE(mapping.begin, last);
    last = mapping.end;
    found += mapping.begin >= begin && mapping.end <= begin + memory.bytes();
  }
  EXPECT_GE(found, 400u - 1);
}

using Table = FixedHashTable<int, 16>;

TEST(FixedHashTable, KeepsWhatWasInserted) {
  auto table = std::make_unique<Table>();
  for (std::uint64_t key = 100; key < 100 + Table::kMost; ++key) {
    const std::uint32_t place = table->insert(key, static_cast<int>(key));
    ASSERT_NE(place, Table::kNowhere);
    EXPECT_EQ(table->find(key), place);
  }
  EXPECT_EQ(table->insert(999, 0), Table::kNowhere);
  for (std::uint64_t key = 100; key < 100 + Table::kMost; ++key) {
    EXPECT_EQ(table->at(table->find(key)), static_cast<int>(key));
  }
  EXPECT_EQ(table->find(0), Table::kNowhere);
  EXPECT_EQ(table->find(1), Table::kNowhere);
  EXPECT_EQ(table->find(999), Table::kNowhere);
}

TEST(FixedHashTable, FindsTheRestAfterErasures) {
  auto table = std::make_unique<Table>();
  std::uint64_t next = 2;
  std::vector<std::uint64_t> keys;
  std::uint32_t random = 1;
  for (int step = 0; step < 20000; ++step) {
    random = random * 1664525 + 1013904223;
    if (keys.size() < Table::kMost && (random >> 16) % 2 == 0) {
      ASSERT_NE(table->insert(next, static_cast<int>(next)), Table::kNowhere);
      keys.push_back(next++);
    } else if (!keys.empty()) {
      const std::size_t which = (random >> 8) % keys.size();
      table->erase(table->find(keys[which]));
      ASSERT_EQ(table->find(keys[which]), Table::kNowhere);
      keys.erase(keys.begin() + static_cast<std::ptrdiff_t>(which));
    }
    ASSERT_EQ(table->size(), keys.size());
    for (const std::uint64_t key : keys)
      ASSERT_EQ(table->at(table->find(key)), static_cast<int>(key));
  }
}

}  // namespace
}  // namespace softhca::provider
