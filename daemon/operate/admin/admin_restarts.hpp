// SPDX-License-Identifier: Apache-2.0

// How often the keeper has replaced the adapter, and the method `upgrade` of the admin socket.
#pragma once

#include <string>
#include <utility>

#include "daemon/device/adapter/adapter.hpp"
#include "daemon/keeper/keeper_link.hpp"
#include "daemon/operate/admin/admin_methods.hpp"

namespace softhca::control {

class AdminRestarts {
 public:
  AdminRestarts(keeper::KeeperLink& keeper, Adapter& adapter)
      : keeper_(keeper), adapter_(adapter) {}

  /// Adds the method. This object must outlive it.
  void add_to(AdminMethods& methods);
  /// Records why the keeper has refused the upgrade that was asked for.
  void refuse(std::string why) { refused_ = std::move(why); }
  /// Reports to the journal why this adapter has replaced another one, if it has, and a port that
  /// is given up.
  void report() const;
  /// Returns the restarts by cause, and the last one, for `status`.
  Json show() const;

 private:
  RpcResult upgrade(const Json& params);

  const char* earlier_version() const;

  keeper::KeeperLink& keeper_;
  Adapter& adapter_;
  std::string
      refused_;  ///< why the last upgrade did not take place; empty: it did, or there was none
};

}  // namespace softhca::control
