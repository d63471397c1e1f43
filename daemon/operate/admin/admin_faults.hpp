// SPDX-License-Identifier: Apache-2.0

// The methods `fault.add`, `fault.remove` and `faults` of the admin socket: faults for `softhcactl
// fault` (faults.hpp). Each fault ends by itself, after `for_s`.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "daemon/device/adapter/adapter.hpp"
#include "daemon/engine/diagnostics/faults.hpp"
#include "daemon/operate/admin/admin_methods.hpp"

namespace softhca::control {

class AdminFaults {
 public:
  explicit AdminFaults(Adapter& adapter) : adapter_(adapter) {}
  ~AdminFaults();

  /// Adds the methods. This object must outlive them.
  void add_to(AdminMethods& methods);
  /// Removes faults that are over. Call it about once a second, so that the journal reports their
  /// end in time.
  void tick();
  /// Returns the faults in force, for `status`.
  Json list();

 private:
  struct Entry {
    engine::Fault fault;
    PeerIdentity who;
    std::string tenant, port;  ///< of the target; empty: none
    records::Record record{};
  };
  using Place = std::list<Entry>::iterator;

  RpcResult add(const Json& params, const PeerIdentity& caller);
  RpcResult remove(const Json& params, const PeerIdentity& caller);
  Outcome find_target(const Json& params, engine::FaultTerms& terms) const;
  Outcome find_queue_pair(const engine::FaultTerms& terms) const;
  std::unique_ptr<engine::Faults::Room> make_room() const;
  void end(Place place);
  static std::string title_of(const Entry& entry);
  void note(const Entry& entry, const PeerIdentity& who, const char* kind, const std::string& text);

  Adapter& adapter_;
  std::list<Entry> entries_;
  std::uint32_t last_number_ = 0;
  bool has_room_ = false;  ///< the engine has room for held packets
};

}  // namespace softhca::control
