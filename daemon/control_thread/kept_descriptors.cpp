// SPDX-License-Identifier: Apache-2.0

#include "daemon/control_thread/kept_descriptors.hpp"

#include <cerrno>

#include "daemon/live_records/record_body.hpp"

namespace softhca::control {

Outcome KeptDescriptors::adopt(std::span<records::Adopted> left) {
  follows_ = !left.empty();
  using records::Kind;
  for (records::Adopted& each : left) {
    const bool is_ours = each.kind == Kind::kListener || each.kind == Kind::kPort ||
                         each.kind == Kind::kKernelGuard || each.kind == Kind::kMetricsAddress ||
                         each.kind == Kind::kSettings;
    if (!is_ours) continue;
    if (auto adopted = adopt(each); !adopted) return adopted;
  }
  return {};
}

Outcome KeptDescriptors::adopt(records::Adopted& found) {
  records::BodyReader body(found.body);
  KeptId id = 0;
  std::string name;
  if (!body.read(id) || !body.read_text(name))
    return Error{std::string("the record of a ") + records::name_of(found.kind) + " is damaged",
                 EBADMSG};
  earlier_.insert_or_assign({found.kind, std::move(name)},
                            KeptDescriptor{std::move(found.record), Kept(keeping_, id)});
  return {};
}

UniqueFd KeptDescriptors::take_earlier(records::Kind kind, const std::string& name) {
  const auto found = earlier_.find({kind, name});
  return found != earlier_.end() ? keeping_->descriptor(found->second.kept.id()) : UniqueFd();
}

std::vector<std::string> KeptDescriptors::all_earlier(records::Kind kind) const {
  std::vector<std::string> names;
  for (const auto& [key, entry] : earlier_)
    if (key.first == kind) names.push_back(key.second);
  return names;
}

void KeptDescriptors::forget_earlier(records::Kind kind) {
  std::erase_if(earlier_, [&](const auto& entry) { return entry.first.first == kind; });
}

Expected<KeptDescriptor> KeptDescriptors::keep(records::Kind kind, const std::string& name,
                                               int fd) {
  if (keeping_ == nullptr) return KeptDescriptor();
  if (const auto reserved = records_->reserve(); !reserved) return reserved.error();
  auto kept = Kept::descriptor(keeping_, fd);
  if (!kept) return kept.error();
  records::BodyWriter body;
  body.add(kept->id()).add_text(name);
  KeptDescriptor made{records_->write(kind, body.bytes()), std::move(*kept)};
  earlier_.erase({kind, name});
  return made;
}

}  // namespace softhca::control
