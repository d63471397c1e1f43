// SPDX-License-Identifier: Apache-2.0

#include "daemon/tenant_memory/shared_buffer.hpp"

#include <cassert>
#include <string>

namespace softhca::memory {

/// Deleter of a use. Each use keeps the buffer alive; the last one to end makes it idle.
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
  auto memory = SealedMemory::create("softhca-shared", bytes, lock_);
  if (!memory) return memory.error();
  if (auto kept = memory->keep(keeping_); !kept) return kept.error();
  const std::uint32_t handle = new_handle();
  const Created created{handle, memory->fd(), memory->inode(), memory->kept()};
  add(handle, std::move(*memory), std::move(account), std::move(descriptor));
  return created;
}

void SharedBufferPool::add(std::uint32_t handle, SealedMemory memory, std::shared_ptr<void> account,
                           std::shared_ptr<void> descriptor) {
  auto buffer = std::make_shared<SharedBuffer>(std::move(memory), std::move(account),
                                               std::move(descriptor), unmap_);
  buffer->handle_ = handle;
  buffer->pool_ = this;
  buffer->idle_ = idle_.end();
  total_bytes_ += buffer->bytes();
  buffers_[handle] = std::move(buffer);
}

Outcome SharedBufferPool::adopt(std::uint32_t handle, KeptId kept, std::shared_ptr<void> account,
                                std::shared_ptr<void> descriptor) {
  if (handle == 0 || find(handle) != nullptr)
    return Error{"shared buffer " + std::to_string(handle) + ": the handle is in use", EBADMSG};
  auto memory = SealedMemory::adopt(*keeping_, kept, lock_);
  if (!memory) return memory.error();
  if (memory->fd() < 0) descriptor = nullptr;
  add(handle, std::move(*memory), std::move(account), std::move(descriptor));
  if (SharedBuffer& buffer = *buffers_[handle]; buffer.is_sealed()) link_idle(buffer);
  return {};
}

std::uint32_t SharedBufferPool::new_handle() {
  while (next_handle_ == 0 || buffers_.contains(next_handle_) || joined_.contains(next_handle_))
    ++next_handle_;
  return next_handle_++;
}

std::shared_ptr<SharedBuffer> SharedBufferPool::find(std::uint32_t handle) const {
  if (const auto own = buffers_.find(handle); own != buffers_.end()) return own->second;
  const auto other = joined_.find(handle);
  return other == joined_.end() ? nullptr : other->second.lock();
}

std::shared_ptr<SharedBuffer> SharedBufferPool::acquire(std::uint32_t handle) {
  const auto buffer = find(handle);
  return buffer != nullptr ? use(buffer) : nullptr;
}

std::shared_ptr<SharedBuffer> SharedBufferPool::use(const std::shared_ptr<SharedBuffer>& buffer) {
  SharedBufferPool* pool = buffer->pool_;
  if (pool != nullptr && buffer->idle_ != pool->idle_.end()) pool->unlink_idle(*buffer);
  ++buffer->uses_;
  return {buffer.get(), EndOfUse{buffer}};
}

std::uint32_t SharedBufferPool::join(const std::shared_ptr<SharedBuffer>& buffer) {
  if (buffer->pool_ == this) return buffer->handle_;
  if (const auto known = joined_handles_.find(buffer); known != joined_handles_.end())
    return known->second;
  if (joined_.size() >= forget_at_) forget_gone();
  const std::uint32_t handle = new_handle();
  joined_[handle] = buffer;
  joined_handles_[buffer] = handle;
  return handle;
}

void SharedBufferPool::forget_gone() {
  std::erase_if(joined_handles_, [](const auto& entry) { return entry.first.expired(); });
  std::erase_if(joined_, [](const auto& entry) { return entry.second.expired(); });
  forget_at_ = 2 * joined_.size() + 16;
}

bool SharedBufferPool::free(std::uint32_t handle) {
  if (const auto other = joined_.find(handle); other != joined_.end()) {
    joined_handles_.erase(other->second);
    joined_.erase(other);
    return true;
  }
  const auto at = buffers_.find(handle);
  if (at == buffers_.end()) return false;
  SharedBuffer& buffer = *at->second;
  if (buffer.idle_ != idle_.end()) unlink_idle(buffer);
  buffer.pool_ = nullptr;
  total_bytes_ -= buffer.bytes();
  buffers_.erase(at);
  return true;
}

bool SharedBufferPool::free_any() {
  if (!buffers_.empty()) return free(buffers_.begin()->first);
  return !joined_.empty() && free(joined_.begin()->first);
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
