// SPDX-License-Identifier: Apache-2.0

#include "daemon/roce/rdma_cm/kept_state.hpp"

#include "daemon/base/crc32c.hpp"
#include "daemon/live_records/record_body.hpp"

namespace softhca::management::rdma_cm {

void KeptState::begin() {
  if (!std::exchange(changes_, true)) store_.begin();
}

void KeptState::record(cm::StateKind kind, std::uint64_t number, std::span<const std::byte> state) {
  Kept& kept = kept_[{kind, number}];
  const std::uint32_t checksum = crc32c(state);
  if (kept.record && kept.checksum == checksum) return;
  if (const auto reserved = store_.reserve(); !reserved) return complain_(reserved.error());
  begin();
  records::BodyWriter body;
  body.add_text(tenant_).add(kind).add(number).add_bytes(state);
  if (kept.record)
    kept.record.replace(body.bytes());
  else
    kept.record = store_.write(records::Kind::kConnectionManager, body.bytes());
  kept.checksum = checksum;
}

void KeptState::forget(cm::StateKind kind, std::uint64_t number) {
  const auto found = kept_.find({kind, number});
  if (found == kept_.end()) return;
  begin();
  kept_.erase(found);
}

void KeptState::commit() {
  // Within another change of the store, that one's end is waited for.
  begin();
  for (auto& action : std::exchange(actions_, {})) store_.after_commit(std::move(action));
  changes_ = false;
  store_.commit();
}

std::optional<KeptState::Recorded> KeptState::read(std::span<const std::byte> body) {
  records::BodyReader reader(body);
  Recorded to;
  if (!reader.read_text(to.tenant)) return std::nullopt;
  const bool whole = reader.read(to.kind) && reader.read(to.number) && reader.read_bytes(to.state);
  if (!whole) to.state = {};
  return to;
}

void KeptState::adopt(const Recorded& recorded, records::Record record) {
  kept_[{recorded.kind, recorded.number}] = {std::move(record), crc32c(recorded.state)};
}

}  // namespace softhca::management::rdma_cm
