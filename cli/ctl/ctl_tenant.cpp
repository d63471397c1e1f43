// SPDX-License-Identifier: Apache-2.0

// tenant create and tenant remove.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <thread>

#include "cli/ctl/ctl_commands.hpp"
#include "cli/ctl/ctl_output.hpp"

namespace softhca::cli {

std::uint32_t mode_of(const std::string& text) {
  std::uint32_t mode = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  if (error != std::errc{} || end != text.data() + text.size() || mode > 0777)
    throw CommandError(
        kUsage, "--mode: " + text + " is not a mode; give file permissions in octal, such as 660");
  return mode;
}

void create_tenant(AdminClient& daemon, const std::string& name, const TenantOptions& options,
                   Output& out) {
  Json params = {{"name", name}, {"template", options.template_name}};
  if (!options.addresses.empty()) params["addresses"] = options.addresses;
  if (!options.owner.empty()) params["owner"] = options.owner;
  if (!options.group.empty()) params["group"] = options.group;
  if (!options.mode.empty()) params["mode"] = mode_of(options.mode);
  if (!options.share.empty()) params["share"] = options.share;
  if (!options.workload.empty()) params["class"] = options.workload;
  if (options.guest_memory != 0) params["guest_memory"] = options.guest_memory;
  if (options.save) params["save"] = true;
  const Json result = daemon.call("tenant.create", params);
  if (out.document(result)) return;
  std::string addresses;
  for (const Json& address : result.at("addresses"))
    addresses += (addresses.empty() ? "" : ", ") + address.get<std::string>();
  out.print("tenant " + name + ": socket " + cell(result, "socket") + ", addresses " + addresses +
            "\n");
  print_kept(result);
}

namespace {

/// True once the daemon has freed all resources of the tenant's programs. It does so in turns with
/// the requests of other tenants. Waits for at most 10 seconds.
bool await_end(AdminClient& daemon, const std::string& name) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    const Json tenants = daemon.read("tenants").at("tenants");
    if (std::none_of(tenants.begin(), tenants.end(),
                     [&](const Json& tenant) { return tenant.at("name") == name; }))
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return false;
}

}  // namespace

void remove_tenant(AdminClient& daemon, const std::string& name, bool end, Output& out) {
  Json params = {{"name", name}};
  if (end) params["end"] = true;
  Json result = daemon.call("tenant.remove", params);
  if (end && result.contains("draining") && await_end(daemon, name)) result.erase("draining");
  if (out.document(result)) return;
  if (!result.contains("draining"))
    out.print("tenant " + name + ": gone\n");
  else
    out.print("tenant " + name + ": draining, " + cell(result, "draining") +
              " connections of its programs are left" + (end ? "\n" : "; --end closes them\n"));
  print_kept(result);
}

}  // namespace softhca::cli
