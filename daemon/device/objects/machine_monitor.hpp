// SPDX-License-Identifier: Apache-2.0

// The monitor of a virtual machine, as a connection to the socket of its tenant: it takes the
// region that the machine's programs share with the daemon, and says when they may use it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "daemon/base/sealed_memory.hpp"
#include "daemon/configuration/resource_manager/accounts.hpp"
#include "daemon/device/objects/device_context.hpp"
#include "daemon/device/objects/object_records.hpp"
#include "daemon/tenant_memory/machine.hpp"
#include "daemon/tenant_memory/process_memory.hpp"

namespace softhca::control {

class MachineMonitor {
 public:
  MachineMonitor(Adapter& adapter, const SessionContext& context)
      : adapter_(adapter), context_(context) {}
  ~MachineMonitor() { end(); }
  MachineMonitor(const MachineMonitor&) = delete;
  MachineMonitor& operator=(const MachineMonitor&) = delete;

  /// Makes the region of the tenant's machine.
  int take(const RequestBody& body, Reply& reply);
  /// Lets programs use the region. Returns kUnfinished until to_seal() is sealed. The caller then
  /// repeats the same request.
  int start(const RequestBody& body, Reply& reply);
  /// As SharedBuffers::to_seal().
  std::pair<DescriptorToSeal, std::shared_ptr<void>> to_seal();

  /// True if the connection is that of a monitor.
  bool is_active() const { return machine_ != nullptr; }
  /// Ends the machine. Programs that still use the region keep it.
  void end();

  bool restore(const record::Machine& kept, records::Record record);

 private:
  /// What ends with the region.
  struct Account {
    configuration::Charge bytes;
    configuration::Charge mapping;
  };

  bool charge(std::uint64_t bytes, std::shared_ptr<Account>& account) const;
  memory::Machine::Terms terms(std::shared_ptr<Account> account) const;
  void write();
  void show() const;
  void note(const char* kind, std::string text) const;

  Adapter& adapter_;
  const SessionContext& context_;
  std::shared_ptr<memory::Machine> machine_;
  std::unique_ptr<EventEnd> bell_;  ///< to the agent (abi::MachineBell)
  DescriptorToSeal sealing_;
  records::Record record_;
};

/// Makes the session one of the tenant's virtual machine, if the tenant is one. Returns 0 or an
/// errno value. While the region is not sealed, a page fault may delay the engine. So it is for
/// processes that could end the daemon, too.
int join_machine(SessionContext& context);
/// Returns memory of a program that the agent of the machine knows by this number. REQUIRES: the
/// session is one of a machine.
Expected<std::shared_ptr<memory::ProcessMemory>> reach_in_machine(const SessionContext& context,
                                                                  std::uint32_t number);

/// As Peer::offer_memory(), in a virtual machine. The number of the memory takes the place of a
/// kept socket.
Expected<Peer::Offered> offer_in_machine(const SessionContext& context);

}  // namespace softhca::control
