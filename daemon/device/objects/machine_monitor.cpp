// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/objects/machine_monitor.hpp"

#include <sys/socket.h>

#include <cerrno>

namespace softhca::control {

bool MachineMonitor::charge(std::uint64_t bytes, std::shared_ptr<Account>& account) const {
  account = std::make_shared<Account>();
  account->bytes = context_.take(configuration::Kind::kSharedBytes, bytes);
  account->mapping = context_.take(configuration::Kind::kMappings);
  return account->bytes && account->mapping;
}

memory::Machine::Terms MachineMonitor::terms(std::shared_ptr<Account> account) const {
  return {.unmap = context_.unmap(),
          .lock = context_.lock_memory(),
          .keeping = context_.keeping(),
          .account = std::move(account)};
}

int MachineMonitor::take(const RequestBody& body, Reply& reply) {
  if (!body.empty()) return EINVAL;
  engine::TenantControl& control = context_.tenant().control;
  const std::uint64_t bytes = control.settings->guest_memory;
  if (bytes == 0)
    return context_.refuse(EOPNOTSUPP,
                           "the tenant is no virtual machine: tenant.guest_memory is 0");
  if (control.leaving) return context_.refuse(ENODEV, "the tenant is being removed");
  if (control.machine != nullptr)
    return context_.refuse(EBUSY, "the tenant's virtual machine has a monitor already");
  std::shared_ptr<Account> account;
  if (!context_.may_map() || !charge(bytes, account)) return ENOMEM;
  auto machine = memory::Machine::create(bytes, terms(std::move(account)));
  if (!machine) return context_.refuse(machine.error());
  machine_ = std::move(*machine);
  control.machine = machine_;
  write();
  reply.write(abi::TakeMachineReply{machine_->bytes()});
  reply.give({.number = machine_->fd()});
  return 0;
}

int MachineMonitor::start(const RequestBody& body, Reply& reply) {
  abi::StartMachineRequest request;
  if (!body.read(request) || request.seal > 1) return EINVAL;
  if (machine_ == nullptr) return context_.refuse(EINVAL, "the connection has no machine");
  if (machine_->has_started()) return context_.refuse(EALREADY, "the machine has started");
  if (request.seal != 0 && !SealedMemory::has_sealed_holes(machine_->fd())) {
    auto fd = machine_->descriptor_to_seal();
    if (!fd) return context_.refuse(fd.error());
    sealing_ = {std::move(*fd), nullptr, 0};
    return kUnfinished;
  }
  if (request.seal != 0) machine_->set_sealed();
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return errno;
  UniqueFd bell(ends[0]);
  PassedHandle theirs{ends[1], std::make_shared<UniqueFd>(ends[1])};
  ::shutdown(bell.get(), SHUT_RD);
  if (auto started = machine_->start(request.begin, std::move(bell)); !started)
    return context_.refuse(started.error());
  write();
  reply.give(std::move(theirs));
  context_.note("machine_started", "its virtual machine has started; process " +
                                       std::to_string(context_.identity().pid) + " monitors it");
  const auto place = [](const SealedMemory::Piece& piece) {
    return abi::MemoryPlace{piece.offset, piece.bytes};
  };
  reply.write(abi::StartMachineReply{.shared = place(machine_->shared_place()),
                                     .proxy = place(machine_->proxy_place())});
  return 0;
}

std::pair<DescriptorToSeal, std::shared_ptr<void>> MachineMonitor::to_seal() {
  return {std::move(sealing_), nullptr};
}

void MachineMonitor::end() {
  if (machine_ == nullptr) return;
  record_.erase();
  if (machine_->has_started()) context_.note("machine_ended", "its virtual machine has ended");
  context_.tenant().control.machine = nullptr;
  machine_ = nullptr;
}

/// Writes the record of the machine.
void MachineMonitor::write() {
  const record::Machine body{.key = context_.record_key(), .region = machine_->kept()};
  if (record_)
    record_.replace(std::as_bytes(std::span(&body, 1)));
  else
    record_ = context_.write_object(records::Kind::kMachine, body);
}

bool MachineMonitor::restore(const record::Machine& kept, records::Record record) {
  std::shared_ptr<Account> account;
  (void)charge(kept.region.bytes, account);
  auto machine = memory::Machine::adopt(kept.region, terms(std::move(account)));
  if (!machine || context_.tenant().control.machine != nullptr) return false;
  machine_ = std::move(*machine);
  context_.tenant().control.machine = machine_;
  record_ = std::move(record);
  return true;
}

}  // namespace softhca::control
