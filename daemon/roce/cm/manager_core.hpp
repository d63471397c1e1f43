// SPDX-License-Identifier: Apache-2.0

// What the parts of a connection manager that handle connections share.
#pragma once

namespace softhca::management::cm {

class ConnectionTable;
class MadSender;
class User;
struct Counters;
struct LocalEnd;

/// All outlive the parts.
struct ManagerCore {
  User& user;
  const LocalEnd& local;
  ConnectionTable& connections;
  MadSender& sender;
  Counters& counters;
};

}  // namespace softhca::management::cm
