// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/objects/shared_buffers.hpp"

#include <cerrno>

namespace softhca::control {
namespace {

constexpr std::size_t kSharedBudget = std::size_t{1} << 40;  // per process
constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 40;
constexpr std::uint64_t kSpare = 16;  // shared memory leaves this part of the mappings free

}  // namespace

SharedBuffers::SharedBuffers(const SessionContext& context, SharedNames& names)
    : context_(context),
      names_(names),
      buffers_(kSharedBudget, context.unmap(), context.memory_source().lock, context.keeping()) {}

bool SharedBuffers::end(const Turn& turn) {
  to_name_ = nullptr;
  while (buffers_.free_any())
    if (turn.is_over()) return false;
  return true;
}

int SharedBuffers::alloc(const RequestBody& body, Reply& reply) {
  abi::AllocSharedRequest request;
  if (!body.read(request)) return EINVAL;
  if (context_.machine() != nullptr)
    return context_.refuse(EOPNOTSUPP, "the agent of the virtual machine gives it shared memory");
  if (request.bytes == 0 || request.bytes % abi::kPageBytes != 0 || request.bytes > kMaxBytes)
    return context_.refuse(EINVAL, "shared memory of %llu bytes: must be whole pages, at most 2^40",
                           static_cast<unsigned long long>(request.bytes));
  if (!context_.may_map()) return kNoRoomYet;
  const auto account = std::make_shared<Account>();
  account->bytes = context_.take(configuration::Kind::kSharedBytes, request.bytes);
  if (!account->bytes) return ENOMEM;
  // Shared memory leaves some mappings free: queues and sessions cannot do without them.
  account->mapping = context_.take(
      configuration::Kind::kMappings, 1,
      context_.tenant().control.accounts.limit(configuration::Kind::kMappings) / kSpare);
  if (!account->mapping) return ENOMEM;
  // The daemon's descriptor stays open until the first region seals the memory.
  const auto descriptor =
      std::make_shared<configuration::Charge>(context_.take(configuration::Kind::kDescriptors));
  if (!*descriptor) return ENOMEM;
  const auto created = buffers_.create(request.bytes, account, descriptor);
  if (!created) return context_.refuse(created.error());
  if (created->kept != 0) {
    account->kept = {.key = context_.record_key(),
                     .memory = created->kept,
                     .bytes = request.bytes,
                     .handle = created->handle,
                     .is_named = 0,
                     .token = {}};
    account->record = context_.write_object(records::Kind::kSharedBuffer, account->kept);
    accounts_[created->handle] = account;
    announce_handles();
  }
  reply.write(abi::AllocSharedReply{created->handle, 0, created->inode});
  reply.share(created->fd);
  return 0;
}

int SharedBuffers::free(const RequestBody& body, Reply&) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  const auto account = account_of(request.handle);
  if (!buffers_.free(request.handle)) return EINVAL;
  if (account != nullptr) {
    account->kept.handle = 0;
    account->write();
  }
  return 0;
}

/// Returns null if no buffer of the session has the handle, or nothing outlives the adapter.
std::shared_ptr<SharedBuffers::Account> SharedBuffers::account_of(std::uint32_t handle) const {
  const auto found = accounts_.find(handle);
  return found == accounts_.end() ? nullptr : found->second.lock();
}

/// Records which handles may have been given: an adapter that follows gives none of them anew, as
/// the process may still name one.
void SharedBuffers::announce_handles() {
  if (buffers_.next_handle() <= handles_end_ || context_.keeping() == nullptr) return;
  std::erase_if(accounts_, [](const auto& entry) { return entry.second.expired(); });
  handles_end_ = std::uint64_t{buffers_.next_handle()} + kHandles;
  handles_record_ = context_.write_object(
      records::Kind::kSharedHandles,
      record::SharedHandles{.key = context_.record_key(), .end = handles_end_});
}

bool SharedBuffers::restore_handles(const record::SharedHandles& kept, records::Record record) {
  handles_end_ = kept.end;
  handles_record_ = std::move(record);
  buffers_.give_handles_from(static_cast<std::uint32_t>(kept.end));
  return true;
}

std::shared_ptr<memory::SharedBuffer> SharedBuffers::restore(const record::SharedBuffer& kept,
                                                             bool is_own, records::Record record) {
  const auto account = std::make_shared<Account>();
  account->bytes = context_.take(configuration::Kind::kSharedBytes, kept.bytes);
  account->mapping = context_.take(configuration::Kind::kMappings);
  account->kept = kept;
  account->record = std::move(record);
  std::shared_ptr<memory::SharedBuffer> buffer;
  if (is_own && kept.handle != 0) {
    const auto descriptor =
        std::make_shared<configuration::Charge>(context_.take(configuration::Kind::kDescriptors));
    if (!buffers_.adopt(kept.handle, kept.memory, account, descriptor)) return nullptr;
    accounts_[kept.handle] = account;
    buffer = buffers_.find(kept.handle);
  } else {
    auto memory =
        SealedMemory::adopt(*context_.keeping(), kept.memory, context_.memory_source().lock);
    if (!memory) return nullptr;
    buffer = std::make_shared<memory::SharedBuffer>(std::move(*memory), account, nullptr,
                                                    context_.unmap());
  }
  if (kept.is_named != 0) names_.restore(buffer, context_.user(), kept.token);
  return buffer;
}

/// Names a buffer once it is sealed. So a session that joins the buffer need not wait for another
/// session's seal.
int SharedBuffers::name(const RequestBody& body, Reply& reply) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  auto buffer = buffers_.find(request.handle);
  if (buffer == nullptr) return ESTALE;
  if (!buffer->is_sealed()) {
    to_name_ = std::move(buffer);
    return kUnfinished;
  }
  const auto token = names_.name(buffer, context_.user());
  if (!token) return context_.refuse(token.error());
  if (const auto account = account_of(request.handle);
      account != nullptr && std::exchange(account->kept.is_named, 1) == 0) {
    account->kept.token = *token;
    account->write();
  }
  reply.write(*token);
  return 0;
}

std::pair<DescriptorToSeal, std::shared_ptr<void>> SharedBuffers::to_seal() {
  const auto buffer = std::exchange(to_name_, nullptr);
  if (buffer == nullptr) return {};
  return buffer->to_seal();
}

/// The token alone is not enough, as for a context.
int SharedBuffers::join(const RequestBody& body, Reply& reply) {
  abi::SharedToken token;
  if (!body.read(token)) return EINVAL;
  const auto buffer = names_.find(token, context_.user());
  if (buffer == nullptr)
    return context_.refuse(EACCES, "no shared memory of this user and tenant has this token");
  reply.write(abi::HandleBody{buffers_.join(buffer), 0});
  announce_handles();
  return 0;
}

}  // namespace softhca::control
