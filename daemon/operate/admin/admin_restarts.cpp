// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/admin/admin_restarts.hpp"

#include <cmath>
#include <cstring>
#include <filesystem>

#include "daemon/engine/ports/port_binding.hpp"
#include "daemon/operate/admin/admin_view.hpp"

namespace softhca::control {
namespace {

using keeper::Cause;

/// In seconds, to the microsecond.
double blackout_of(const keeper::Restarts& restarts) {
  return std::round(static_cast<double>(restarts.last_blackout_ns.load()) / 1e3) / 1e6;
}

std::string text_of(Cause cause, int signal) {
  switch (cause) {
    case Cause::kUpgrade:
      return "replaced by an upgrade";
    case Cause::kRollback:
      return "put back, as the new one of an upgrade did not start";
    case Cause::kHang:
      return "replaced after a hang: it made no turns";
    default:
      return signal == 0 ? "replaced, as it had ended"
                         : "replaced after a crash (" + std::string(::strsignal(signal)) + ")";
  }
}

}  // namespace

void AdminRestarts::add_to(AdminMethods& methods) {
  methods.add("upgrade", [this](const Json& params) { return upgrade(params); });
}

RpcResult AdminRestarts::upgrade(const Json& params) {
  const auto library = param(params, "library", std::string());
  if (!library.empty() && !std::filesystem::path(library).is_absolute())
    return invalid_params("library: the path must begin with /");
  refused_.clear();
  if (const auto begun = keeper_.upgrade(library); !begun) {
    const Error& error = begun.error();
    return RpcError{RpcCode::kRefused,
                    error.code == EBUSY       ? "another upgrade is in progress"
                    : error.code == ETIMEDOUT ? "the main process of softhcad does not answer"
                                              : (library.empty() ? "the library" : library) + ": " +
                                                    std::strerror(error.code),
                    {}};
  }
  return Json::object();
}

const char* AdminRestarts::earlier_version() const {
  return adapter_.lineage.earlier_version.empty() ? "unknown"
                                                  : adapter_.lineage.earlier_version.c_str();
}

void AdminRestarts::report() const {
  const Cause cause = keeper_.cause();
  if (cause == Cause::kStart) return;
  const keeper::Restarts& restarts = keeper_.restarts();
  const long ms = std::lround(blackout_of(restarts) * 1000);
  adapter_.journal.add({.kind = "restart",
                        .tenant = "",
                        .text = "the adapter was " + text_of(cause, restarts.last_signal.load()) +
                                "; version " + earlier_version() + " -> " +
                                adapter_.lineage.version + "; " + std::to_string(ms) +
                                " ms without service",
                        .cause = keeper::name_of(cause)});
  for (const auto& port : adapter_.engine.ports)
    if (port->service.load() == engine::PortService::kFailed)
      adapter_.journal.add({.kind = "culprit",
                            .tenant = "",
                            .text = "port " + port->name +
                                    ": the adapter crashed twice while it served it; it is "
                                    "down until `softhcactl port up` or another adapter"});
}

Json AdminRestarts::show() const {
  const keeper::Restarts& restarts = keeper_.restarts();
  Json out = Json::object();
  std::uint64_t all = 0;
  for (std::size_t cause = 1; cause < keeper::kCauses; ++cause) {
    const std::uint64_t count = restarts.of[cause].load();
    out[keeper::name_of(static_cast<Cause>(cause))] = count;
    all += count;
  }
  out["total"] = all;
  if (all != 0)
    out["last"] = {{"cause", keeper::name_of(static_cast<Cause>(restarts.last_cause.load()))},
                   {"blackout_s", blackout_of(restarts)},
                   {"from", earlier_version()},
                   {"to", adapter_.lineage.version}};
  if (!refused_.empty()) out["upgrade_refused"] = refused_;
  return out;
}

}  // namespace softhca::control
