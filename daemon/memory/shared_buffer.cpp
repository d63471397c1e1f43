#include "daemon/memory/shared_buffer.hpp"

#include <algorithm>
#include <string>

namespace softhca::memory {

Expected<SharedBufferPool::Created> SharedBufferPool::create(std::size_t bytes,
                                                             std::shared_ptr<void> account,
                                                             std::shared_ptr<void> descriptor) {
  const std::size_t size = SealedMemory::round_to_pages(bytes);
  const auto fits = [&] { return size <= total_budget_ && total_bytes() <= total_budget_ - size; };
  if (!fits()) give_up_idle(0);
  if (!fits())
    return Error{"shared memory of " + std::to_string(bytes) + " bytes: the session uses " +
                     std::to_string(total_bytes()) + " of " + std::to_string(total_budget_),
                 ENOMEM};
  auto memory = SealedMemory::create("softhca-shared", bytes, SealedMemory::Holes::kUntilSealed);
  if (!memory) return memory.error();
  const std::uint32_t handle = next_handle_++;
  const Created created{handle, memory->fd(), memory->inode()};
  entries_[handle] = {
      std::make_shared<SharedBuffer>(std::move(*memory), std::move(account), std::move(descriptor)),
      0};
  return created;
}

std::shared_ptr<SharedBuffer> SharedBufferPool::acquire(std::uint32_t handle) {
  const auto at = entries_.find(handle);
  if (at == entries_.end()) return nullptr;
  at->second.last_use = ++use_clock_;
  return at->second.buffer;
}

bool SharedBufferPool::free(std::uint32_t handle) { return entries_.erase(handle) != 0; }

void SharedBufferPool::trim() { give_up_idle(idle_budget_); }

void SharedBufferPool::give_up_idle(std::size_t keep_bytes) {
  std::size_t idle = idle_bytes();
  while (idle > keep_bytes) {
    auto oldest = entries_.end();
    for (auto at = entries_.begin(); at != entries_.end(); ++at)
      if (at->second.idle() &&
          (oldest == entries_.end() || at->second.last_use < oldest->second.last_use))
        oldest = at;
    idle -= oldest->second.buffer->bytes();
    entries_.erase(oldest);
  }
}

std::size_t SharedBufferPool::idle_bytes() const {
  std::size_t sum = 0;
  for (const auto& [handle, entry] : entries_)
    if (entry.idle()) sum += entry.buffer->bytes();
  return sum;
}

std::size_t SharedBufferPool::total_bytes() const {
  std::size_t sum = 0;
  for (const auto& [handle, entry] : entries_) sum += entry.buffer->bytes();
  return sum;
}

}  // namespace softhca::memory
