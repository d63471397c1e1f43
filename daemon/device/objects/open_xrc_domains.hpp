// SPDX-License-Identifier: Apache-2.0

// Domains of extended reliable connected service (XRC) that a session has opened.
#pragma once

#include <memory>

#include "daemon/base/handle_table.hpp"
#include "daemon/device/objects/device_context.hpp"
#include "daemon/device/objects/object_records.hpp"
#include "daemon/device/objects/xrc_domains.hpp"

namespace softhca::control {

struct OpenXrcDomain {
  records::Record record;
  configuration::Charge charge;
  std::shared_ptr<XrcDomain> domain;
  std::uint32_t users = 0;
};

class OpenXrcDomains {
 public:
  /// `all`: the domains of the adapter.
  OpenXrcDomains(const SessionContext& context, XrcDomains& all) : context_(context), all_(all) {}

  /// Returns an open domain. Null: unknown handle.
  OpenXrcDomain* find(std::uint32_t handle) const { return open_.find(handle); }

  bool restore(const record::XrcDomain& kept, records::Record record);

  int open(const RequestBody& body, Reply& reply);
  int close(const RequestBody& body, Reply& reply);

  /// As QpObjects::end().
  bool end(const Turn& turn);

 private:
  const SessionContext& context_;
  XrcFile file_of(const abi::OpenXrcDomainRequest& request) const;

  XrcDomains& all_;
  HandleTable<OpenXrcDomain> open_;
};

}  // namespace softhca::control
