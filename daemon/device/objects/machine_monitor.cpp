// SPDX-License-Identifier: Apache-2.0

#include "daemon/device/objects/machine_monitor.hpp"

#include <unistd.h>

#include <cerrno>

#include "daemon/base/system_error.hpp"
#include "daemon/engine/memory/memory_proxy.hpp"
#include "daemon/engine/requests/memory_requests.hpp"
#include "daemon/tenant_memory/proxy_area.hpp"

namespace softhca::control {

/// Adds an event of the tenant to the journal.
void MachineMonitor::note(const char* kind, std::string text) const {
  adapter_.journal.add({.kind = kind, .tenant = context_.tenant().name, .text = std::move(text)});
}

bool MachineMonitor::charge(std::uint64_t bytes, std::shared_ptr<Account>& account) const {
  account = std::make_shared<Account>();
  account->bytes = context_.take(configuration::Kind::kSharedBytes, bytes);
  account->mapping = context_.take(configuration::Kind::kMappings);
  return account->bytes && account->mapping;
}

memory::Machine::Terms MachineMonitor::terms(std::shared_ptr<Account> account) const {
  return {.unmap = context_.unmap(),
          .lock = context_.memory_source().lock,
          .keeping = context_.keeping(),
          .account = std::move(account),
          .queues_in_use = context_.tenant().control.region_queues_in_use};
}

int MachineMonitor::take(const RequestBody& body, Reply& reply) {
  if (!body.empty()) return EINVAL;
  engine::TenantControl& control = context_.tenant().control;
  const std::uint64_t bytes = control.settings->programs.guest_memory;
  if (bytes == 0)
    return context_.refuse(EOPNOTSUPP,
                           "the tenant has no guest_memory, so it cannot be a virtual machine");
  if (control.leaving) return context_.refuse(ENODEV, "the tenant is being removed");
  if (control.machine != nullptr)
    return context_.refuse(EBUSY, "the tenant's virtual machine has a monitor already");
  std::shared_ptr<Account> account;
  if (!context_.may_map() || !charge(bytes, account)) return ENOMEM;
  auto machine = memory::Machine::create(bytes, terms(std::move(account)));
  if (!machine) return context_.refuse(machine.error());
  machine_ = std::move(*machine);
  control.machine = machine_;
  show();
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
  if (auto started = machine_->start(request.begin); !started)
    return context_.refuse(started.error());
  if (const int error = context_.peer().make_events(bell_, reply)) return error;
  machine_->set_bell(bell_->number());
  show();
  write();
  note("machine_started", "its virtual machine has started; process " +
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
  if (machine_->has_started()) note("machine_ended", "its virtual machine has ended");
  machine_->set_bell(-1);
  bell_ = nullptr;
  context_.tenant().control.machine = nullptr;
  machine_ = nullptr;
  show();
}

/// Sets what metrics show of the machine.
void MachineMonitor::show() const {
  const bool has_started = machine_ != nullptr && machine_->has_started();
  const memory::MachineState state = has_started           ? memory::MachineState::kRuns
                                     : machine_ != nullptr ? memory::MachineState::kStarting
                                                           : memory::MachineState::kOff;
  engine::TenantControl& control = context_.tenant().control;
  control.machine_state.set(static_cast<std::uint32_t>(state));
  control.region_queues.set(has_started ? machine_->rings_bytes() : 0);
}

/// Writes the record of the machine.
void MachineMonitor::write() {
  const record::Machine body{.key = context_.record_key(),
                             .bell = bell_ != nullptr ? bell_->kept() : 0,
                             .region = machine_->kept()};
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
  if (kept.bell != 0) {
    bell_ = context_.peer().restore_events(kept.bell);
    if (bell_ == nullptr) return false;
    (*machine)->set_bell(bell_->number());
  }
  machine_ = std::move(*machine);
  context_.tenant().control.machine = machine_;
  record_ = std::move(record);
  show();
  return true;
}

int join_machine(SessionContext& context) {
  const engine::TenantControl& control = context.tenant().control;
  const auto& machine = control.machine;
  if (machine == nullptr && control.settings->programs.guest_memory == 0) return 0;
  if (machine == nullptr)
    return context.refuse(ENODEV,
                          "the tenant is a virtual machine that does not run: start it by "
                          "softhca-run --guest");
  if (!machine->has_started())
    return context.refuse(EAGAIN, "the virtual machine has not started its agent");
  const bool has_our_rights = context.identity().uid == ::geteuid() || context.identity().uid == 0;
  if (!machine->is_sealed() && !has_our_rights)
    return context.refuse(EACCES, "the region of the virtual machine is not sealed");
  context.machine() = machine;
  return 0;
}

static_assert(sizeof(memory::ProxyArea) <= memory::Machine::kProxyBytes);

Expected<std::shared_ptr<memory::ProcessMemory>> reach_in_machine(const SessionContext& context,
                                                                  std::uint32_t number) {
  const std::shared_ptr<memory::Machine>& machine = context.machine();
  const engine::MemoryReach reach =
      context.on_engine(engine::ReachMemory{.tenant = context.tenant(), .by_proxy = true});
  auto& known = context.tenant().control.memory_proxy;
  auto proxy = known.lock();
  if (proxy == nullptr || !proxy->is_of(machine.get())) {
    proxy = engine::MemoryProxy::create_in_machine(
        machine, machine->proxy_area(), machine->bell(),
        {context.tenant().counters.memory, reach.waits, reach.waited});
    if (proxy == nullptr) return system_error("a process's memory");
    known = proxy;
  }
  return engine::MemoryProxy::add(proxy, number);
}

Expected<Peer::Offered> offer_in_machine(const SessionContext& context) {
  const std::uint32_t number = context.machine()->next_memory();
  auto memory = reach_in_machine(context, number);
  if (!memory) return memory.error();
  return Peer::Offered{.memory = std::move(*memory), .end = {}, .kept = number};
}

}  // namespace softhca::control
