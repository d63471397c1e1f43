// The methods `fault.add`, `fault.remove` and `faults` of the admin socket: faults for
// `softhcactl fault` (engine/faults.hpp). Each ends by itself, after `for_s`.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "daemon/control/adapter/adapter.hpp"
#include "daemon/control/admin/admin_methods.hpp"

namespace softhca::control {

class AdminFaults {
 public:
  explicit AdminFaults(Adapter& adapter) : adapter_(adapter) {}
  ~AdminFaults();

  /// Must outlive the methods.
  void add_to(AdminMethods& methods);
  /// Takes away those that are over; about once a second, to be told in time.
  void tick();
  /// Those in force, for `status`.
  Json list();

 private:
  struct Entry {
    engine::Fault fault;
    PeerIdentity who;
    std::string tenant, port;  ///< of its target; empty: none
  };
  using Place = std::list<Entry>::iterator;

  RpcResult add(const Json& params, const PeerIdentity& caller);
  RpcResult remove(const Json& params, const PeerIdentity& caller);
  Outcome find_target(const Json& params, engine::FaultTerms& terms) const;
  Outcome find_queue_pair(const engine::FaultTerms& terms) const;
  std::unique_ptr<engine::Faults::Room> make_room() const;
  void end(Place place);
  void note(const Entry& entry, const PeerIdentity& who, const char* kind, const std::string& text);

  Adapter& adapter_;
  std::list<Entry> entries_;
  std::uint32_t last_number_ = 0;
  bool has_room_ = false;  ///< the engine was given room for packets
};

}  // namespace softhca::control
