#include "daemon/management/rdma_cm/identifier_table.hpp"

namespace softhca::management::rdma_cm {

Identifier& IdentifierTable::make() {
  if (free_.empty()) {
    free_.push(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t number = free_.top();
  free_.pop();
  ++size_;
  slots_[number] = std::make_unique<Identifier>();
  slots_[number]->number = IdentifierNumber(number);
  slots_[number]->generation = ++generations_;
  return *slots_[number];
}

void IdentifierTable::erase(IdentifierNumber number) {
  slots_[number.value].reset();
  free_.push(number.value);
  --size_;
}

Identifier* IdentifierTable::find(std::uint32_t number) {
  return number < slots_.size() ? slots_[number].get() : nullptr;
}

Identifier* IdentifierTable::find_cookie(std::uint64_t cookie) {
  Identifier* const found = find(static_cast<std::uint32_t>(cookie));
  return found != nullptr && found->cookie() == cookie ? found : nullptr;
}

}  // namespace softhca::management::rdma_cm
