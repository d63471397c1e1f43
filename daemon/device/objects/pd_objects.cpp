// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/objects/pd_objects.hpp"

#include <cerrno>
#include <iterator>
#include <string>
#include <utility>

namespace softhca::control {
namespace {

/// Returns the objects in a domain: "2 memory regions, 1 queue pair". Empty: none.
std::string users_of(const PdObject& pd) {
  constexpr const char* kNames[] = {"memory region", "memory window", "queue pair",
                                    "shared receive queue", "address handle"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(PdUser::kCount));
  std::string text;
  for (std::size_t i = 0; i < pd.users.size(); ++i)
    if (pd.users[i] != 0) text += (text.empty() ? "" : ", ") + counted(pd.users[i], kNames[i]);
  return text;
}

}  // namespace

int PdObjects::alloc(const RequestBody& body, Reply& reply) {
  if (!body.empty()) return EINVAL;
  auto pd = std::make_unique<PdObject>(shared_.pd_numbers);
  pd->charge = context_.take(configuration::Kind::kProtectionDomains);
  if (!pd->charge) return ENOMEM;
  PdObject& made = *pd;
  made.handle = file_->pds.add(std::move(pd));
  made.record = context_.write_object(records::Kind::kProtectionDomain,
                                      record::ProtectionDomain{.key = context_.record_key(),
                                                               .file = file_->number,
                                                               .handle = made.handle,
                                                               .id = made.id.value,
                                                               .reserved = 0});
  reply.write(abi::HandleBody{made.handle, 0});
  return 0;
}

bool PdObjects::restore(const record::ProtectionDomain& kept, records::Record record) {
  const memory::PdId id(kept.id);
  if (!shared_.pd_numbers.take(id)) return false;
  auto pd = std::make_unique<PdObject>(shared_.pd_numbers, id);
  pd->charge = context_.take(configuration::Kind::kProtectionDomains);
  pd->handle = kept.handle;
  pd->record = std::move(record);
  return file_->pds.add(std::move(pd), kept.handle) != nullptr;
}

/// Writes that the session has a file that others may have.
void PdObjects::write_file() {
  file_record_ = context_.write_object(records::Kind::kDeviceFile,
                                       record::DeviceFile{.key = context_.record_key(),
                                                          .file = file_->number,
                                                          .device = file_->device,
                                                          .token = *file_->token});
}

bool PdObjects::restore_file(const record::DeviceFile& kept,
                             const std::shared_ptr<DeviceFile>& file, records::Record record) {
  if (kept.device != context_.device_index() || file_->pds.size() != 0 || file_->mrs.size() != 0)
    return false;
  file_ = file;
  file_->token = kept.token;
  file_->device = context_.device_index();
  file_record_ = std::move(record);
  shared_.device_files.add(file_, context_.user());
  return true;
}

int PdObjects::dealloc(const RequestBody& body, Reply&) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  const PdObject* pd = find(request.handle);
  if (pd == nullptr) return context_.refuse_unknown("protection domain");
  if (const std::string users = users_of(*pd); !users.empty())
    return context_.refuse(EBUSY, "in use by %s", users.c_str());
  file_->pds.remove(request.handle);
  return 0;
}

int PdObjects::import(const RequestBody& body, Reply&) {
  abi::HandleBody request;
  if (!body.read(request)) return EINVAL;
  return find(request.handle) != nullptr ? 0 : context_.refuse_unknown("protection domain");
}

int PdObjects::share_context(const RequestBody& body, Reply& reply) {
  if (!body.empty()) return EINVAL;
  const auto token = shared_.device_files.share(file_, context_.user());
  if (!token) return context_.refuse(token.error());
  file_->device = context_.device_index();
  if (!file_record_) write_file();
  reply.write(*token);
  return 0;
}

/// The token alone is not enough: a process that got a descriptor of another user must not reach
/// that user's memory.
int PdObjects::join_context(const RequestBody& body, Reply&) {
  abi::ContextToken token;
  if (!body.read(token)) return EINVAL;
  if (file_->pds.size() != 0 || file_->mrs.size() != 0)
    return context_.refuse(EBUSY, "the context has objects of its own");
  // The others keep the file, which a record of this session names.
  if (!are_unshared()) return context_.refuse(EBUSY, "others have imported the context");
  auto file = shared_.device_files.find(token, context_.user());
  if (file == nullptr || file->device != context_.device_index())
    return context_.refuse(EACCES, "no context of this user and device has this descriptor");
  leave_file();
  file_ = std::move(file);
  write_file();
  return 0;
}

/// Drops the token of a file with the last session that has the file.
bool PdObjects::leave_file() {
  const bool was_last = are_unshared();
  if (was_last)
    shared_.device_files.forget(*file_, context_.user());
  else
    file_ = shared_.device_files.make();
  file_record_.erase();
  return was_last;
}

bool PdObjects::end(const Turn& turn) {
  leave_file();
  while (file_->pds.remove_last())
    if (turn.is_over()) return false;
  return true;
}

}  // namespace softhca::control
