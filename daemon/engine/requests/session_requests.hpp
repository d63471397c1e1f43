// SPDX-License-Identifier: Apache-2.0

// Requests about the sessions of processes.
#pragma once

#include <cstdint>
#include <span>

namespace softhca::engine {

class Engine;
enum class EventType : std::uint32_t;
struct Session;

struct InstallSession {
  Session& session;
  void run(Engine& engine) const;
};

/// Begins to take what the process posts. REQUIRES: the session is installed.
struct PollSession {
  Session& session;
  void run(Engine& engine) const;
};

/// Removes a session. REQUIRES: its objects are removed.
struct RemoveSession {
  Session& session;
  void run(Engine& engine) const;
};

/// Tells the process about an event of its device's port.
struct RaisePortEvent {
  Session& session;
  EventType type;
  std::uint8_t port = 1;  ///< of the device, as programs number it
  void run(Engine& engine) const;
};

/// How many VCBs a session is to have (A1).
struct VcbTarget {
  Session* session = nullptr;
  std::uint32_t count = 0;
};

/// Revokes VCBs beyond the targets. Sets each count to what stays granted: a VCB that was posted
/// stays until its command is fetched.
struct RevokeVcbs {
  std::span<VcbTarget> targets;
  void run(Engine& engine) const;
};

/// Grants VCBs up to the targets. REQUIRES: none is below what is granted.
struct GrantVcbs {
  std::span<const VcbTarget> targets;
  void run(Engine& engine) const;
};

}  // namespace softhca::engine
