// SPDX-License-Identifier: Apache-2.0

// The adapter of a later release, as far as its state differs: each record is longer, and those of
// an earlier adapter become longer as soon as this one has read them. If there is a file beside the
// library with the ending ".kind", there is also a record of a kind that no release knows.
//
// The library is that of the adapter, with these functions in place of the record store's (option
// --wrap of the linker).
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/live_records/record_store.hpp"

namespace {

using namespace softhca::records;

using Body = std::span<const std::byte>;

constexpr std::array<std::byte, 12> kAdded = {std::byte{'l'}, std::byte{'a'}, std::byte{'t'},
                                              std::byte{'e'}, std::byte{'r'}};
constexpr auto kNewKind = static_cast<Kind>(60);

bool is_later(Body body) {
  return body.size() >= kAdded.size() && std::ranges::equal(body.last(kAdded.size()), kAdded);
}

std::vector<std::byte> with_added(Body body) {
  std::vector<std::byte> longer(body.begin(), body.end());
  if (!is_later(body) && body.size() + kAdded.size() <= RecordStore::kMaxBytes)
    longer.insert(longer.end(), kAdded.begin(), kAdded.end());
  return longer;
}

bool writes_new_kind() {
  Dl_info here{};
  ::dladdr(reinterpret_cast<void*>(&writes_new_kind), &here);
  return ::access((std::string(here.dli_fname) + ".kind").c_str(), F_OK) == 0;
}

}  // namespace

// The names are those of the linker; tests/system/operation/meson.build has them, too.

Record real_write(RecordStore* store, Kind kind, Body body, SlotState state) asm(
    "__real__ZN7softhca7records11RecordStore5writeENS0_4KindESt4spanIKSt4byteLm18446744073709551615"
    "EENS0_9SlotStateE");
Record later_write(RecordStore* store, Kind kind, Body body, SlotState state) asm(
    "__wrap__ZN7softhca7records11RecordStore5writeENS0_4KindESt4spanIKSt4byteLm18446744073709551615"
    "EENS0_9SlotStateE");
Record later_write(RecordStore* store, Kind kind, Body body, SlotState state) {
  return real_write(store, kind, with_added(body), state);
}

void real_replace(Record* record, Body body) asm(
    "__real__ZN7softhca7records6Record7replaceESt4spanIKSt4byteLm18446744073709551615EE");
void later_replace(Record* record, Body body) asm(
    "__wrap__ZN7softhca7records6Record7replaceESt4spanIKSt4byteLm18446744073709551615EE");
void later_replace(Record* record, Body body) { real_replace(record, with_added(body)); }

std::vector<Adopted> real_take_adopted(RecordStore* store) asm(
    "__real__ZN7softhca7records11RecordStore12take_adoptedEv");
std::vector<Adopted> later_take_adopted(RecordStore* store) asm(
    "__wrap__ZN7softhca7records11RecordStore12take_adoptedEv");
std::vector<Adopted> later_take_adopted(RecordStore* store) {
  std::vector<Adopted> all = real_take_adopted(store);
  for (Adopted& each : all)
    if (store->reserve()) later_replace(&each.record, each.body);
  if (writes_new_kind() && store->reserve()) {
    static auto* const made = new std::vector<Record>;  // it stays
    made->push_back(later_write(store, kNewKind, {}, SlotState::kLive));
  }
  return all;
}
