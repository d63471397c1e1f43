#include "daemon/memory/shared_buffer.hpp"

#include <cassert>
#include <string>

namespace softhca::memory {

/// Each use keeps the buffer alive; the last to end makes it idle.
struct SharedBufferPool::EndOfUse {
  std::shared_ptr<SharedBuffer> buffer;
  void operator()(SharedBuffer*) const {
    if (--buffer->uses_ == 0 && buffer->pool_ != nullptr) buffer->pool_->link_idle(*buffer);
  }
};

SharedBufferPool::~SharedBufferPool() {
  for (const auto& [handle, buffer] : buffers_) buffer->pool_ = nullptr;
}

Expected<SharedBufferPool::Created> SharedBufferPool::create(std::size_t bytes,
                                                             std::shared_ptr<void> account,
                                                             std::shared_ptr<void> descriptor) {
  const std::size_t size = SealedMemory::round_to_pages(bytes);
  const auto fits = [&](std::size_t used) { return size <= budget_ && used <= budget_ - size; };
  if (fits(total_bytes_ - idle_bytes_))
    while (!fits(total_bytes_)) give_up_oldest();
  if (!fits(total_bytes_))
    return Error{"shared memory of " + std::to_string(bytes) + " bytes: the session uses " +
                     std::to_string(total_bytes_) + " of " + std::to_string(budget_),
                 ENOMEM};
  auto memory = SealedMemory::create("softhca-shared", bytes);
  if (!memory) return memory.error();
  while (next_handle_ == 0 || buffers_.contains(next_handle_)) ++next_handle_;
  const std::uint32_t handle = next_handle_++;
  const Created created{handle, memory->fd(), memory->inode()};
  auto buffer = std::make_shared<SharedBuffer>(std::move(*memory), std::move(account),
                                               std::move(descriptor), unmap_);
  buffer->handle_ = handle;
  buffer->pool_ = this;
  buffer->idle_ = idle_.end();
  total_bytes_ += buffer->bytes();
  buffers_[handle] = std::move(buffer);
  return created;
}

std::shared_ptr<SharedBuffer> SharedBufferPool::acquire(std::uint32_t handle) {
  const auto at = buffers_.find(handle);
  if (at == buffers_.end()) return nullptr;
  SharedBuffer& buffer = *at->second;
  if (buffer.idle_ != idle_.end()) unlink_idle(buffer);
  ++buffer.uses_;
  return {&buffer, EndOfUse{at->second}};
}

bool SharedBufferPool::free(std::uint32_t handle) {
  const auto at = buffers_.find(handle);
  if (at == buffers_.end()) return false;
  SharedBuffer& buffer = *at->second;
  if (buffer.idle_ != idle_.end()) unlink_idle(buffer);
  buffer.pool_ = nullptr;
  total_bytes_ -= buffer.bytes();
  buffers_.erase(at);
  return true;
}

void SharedBufferPool::give_up_oldest() {
  assert(!idle_.empty());
  free(idle_.front()->handle_);
}

void SharedBufferPool::link_idle(SharedBuffer& buffer) {
  buffer.idle_ = idle_.insert(idle_.end(), &buffer);
  idle_bytes_ += buffer.bytes();
}

void SharedBufferPool::unlink_idle(SharedBuffer& buffer) {
  idle_bytes_ -= buffer.bytes();
  idle_.erase(buffer.idle_);
  buffer.idle_ = idle_.end();
}

}  // namespace softhca::memory
