#include "daemon/resource/overlay.hpp"

#include <algorithm>

namespace softhca::resource {
namespace {

bool says_anew(const AllocationChange& later, const AllocationChange& earlier) {
  return later.tenant == earlier.tenant && later.level == earlier.level &&
         later.allocation == earlier.allocation && (!later.tvl || later.tvl == earlier.tvl);
}

/// Makes the requests as long as one of them fits.
void make_saved(Config& config, const std::vector<SavedRequest>& saved, const Held& held,
                std::map<std::uint64_t, AllocationRefusal>& left_out) {
  std::vector<const SavedRequest*> waiting;
  for (const SavedRequest& request : saved) waiting.push_back(&request);
  for (bool some = true; some;) {
    some = std::erase_if(waiting, [&](const SavedRequest* request) {
             auto made = with_changes(config, request->changes, held);
             if (made)
               config = *made;
             else
               left_out.insert_or_assign(request->number, made.refusal());
             if (made) left_out.erase(request->number);
             return static_cast<bool>(made);
           }) != 0;
  }
}

}  // namespace

void supersede(std::vector<AllocationChange>& changes, const AllocationChange& later) {
  std::erase_if(changes, [&](const auto& earlier) { return says_anew(later, earlier); });
  changes.push_back(later);
}

void supersede(std::vector<SavedRequest>& saved, const std::vector<AllocationChange>& later) {
  for (SavedRequest& request : saved)
    std::erase_if(request.changes, [&](const AllocationChange& earlier) {
      return std::ranges::any_of(later, [&](const auto& each) { return says_anew(each, earlier); });
    });
  std::erase_if(saved, [](const SavedRequest& request) { return request.changes.empty(); });
}

Overlaid lay_over(const Config& file, const std::vector<SavedRequest>& saved, const OwnChanges& own,
                  const Held& held) {
  Overlaid out{.given = file, .in_force = {}, .left_out = {}, .undivided = {}};
  make_saved(out.given, saved, held, out.left_out);
  if (!out.left_out.empty()) {
    std::vector<AllocationChange> all;
    for (const SavedRequest& request : saved)
      all.insert(all.end(), request.changes.begin(), request.changes.end());
    if (auto made = with_changes(file, all, held)) {
      out.given = *made;
      out.left_out.clear();
    }
  }
  out.in_force = out.given;
  for (const auto& [tenant, changes] : own) {
    const TenantConfig* total = find_tenant(out.given, tenant);
    if (total == nullptr) continue;
    if (auto made = with_own_changes(out.in_force, *total, *changes, held))
      out.in_force = *made;
    else
      out.undivided.emplace(tenant, made.refusal());
  }
  return out;
}

}  // namespace softhca::resource
