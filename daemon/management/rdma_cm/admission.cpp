#include "daemon/management/rdma_cm/admission.hpp"

namespace softhca::management::rdma_cm {

void Admission::set(const std::vector<Part>& parts, std::uint32_t most) {
  most_ = most;
  for (auto& [level, entry] : entries_) {
    entry.carries = 0;
    entry.shares = true;
    entry.is_part = level.empty();
  }
  for (const Part& part : parts) {
    Entry& entry = entries_[part.level];
    entry.carries = part.carries;
    entry.shares = part.shares;
    entry.is_part = true;
  }
  std::erase_if(entries_,
                [](const auto& it) { return !it.second.is_part && it.second.admitted == 0; });
}

/// Connections that what no level has of its own carries.
std::uint32_t Admission::beyond_levels() const {
  std::uint32_t sum = 0;
  for (const auto& [level, entry] : entries_) {
    const std::uint32_t own = level.empty() ? 0 : entry.carries;
    if (entry.admitted > own) sum += entry.admitted - own;
  }
  return sum;
}

bool Admission::carries_one_more(const std::string& level, const Entry& entry) const {
  if (admitted_ >= most_) return false;
  if (!level.empty() && entry.admitted < entry.carries) return true;
  return entry.shares && beyond_levels() < entries_.at("").carries;
}

bool Admission::take(const std::string& level) {
  Entry& entry = entries_[level];
  if (!carries_one_more(level, entry)) {
    ++entry.refused;
    return false;
  }
  ++entry.admitted;
  ++admitted_;
  return true;
}

void Admission::give_back(const std::string& level) {
  const auto found = entries_.find(level);
  --found->second.admitted;
  --admitted_;
  if (!found->second.is_part && found->second.admitted == 0) entries_.erase(found);
}

std::vector<Admission::View> Admission::view() const {
  std::vector<View> views;
  for (const auto& [level, entry] : entries_)
    views.push_back({level, entry.carries, entry.admitted, entry.refused});
  return views;
}

}  // namespace softhca::management::rdma_cm
