// SPDX-License-Identifier: Apache-2.0

// The monitor of a virtual machine, as a connection to the socket of its tenant: it takes the
// region that the machine's programs share with the daemon, and says when they may use it.
#pragma once

#include <memory>
#include <utility>

#include "daemon/base/sealed_memory.hpp"
#include "daemon/configuration/resource_manager/accounts.hpp"
#include "daemon/device/objects/device_context.hpp"
#include "daemon/device/objects/object_records.hpp"
#include "daemon/tenant_memory/machine.hpp"

namespace softhca::control {

class MachineMonitor {
 public:
  explicit MachineMonitor(const SessionContext& context) : context_(context) {}
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

  const SessionContext& context_;
  std::shared_ptr<memory::Machine> machine_;
  DescriptorToSeal sealing_;
  records::Record record_;
};

}  // namespace softhca::control
