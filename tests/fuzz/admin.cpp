// SPDX-License-Identifier: Apache-2.0

// A line on the admin socket: it is answered with a line of JSON-RPC 2.0 or, being a notification,
// with none; what it changes can be changed back, so nothing was lost.
#include <spdlog/spdlog.h>

#include "daemon/frontend/unix/server/server.hpp"
#include "daemon/operate/admin/admin_captures.hpp"
#include "daemon/operate/admin/admin_faults.hpp"
#include "daemon/operate/admin/admin_rpc.hpp"
#include "daemon/operate/admin/admin_view.hpp"
#include "daemon/operate/reload/reload.hpp"
#include "tests/folder.hpp"
#include "tests/fuzz/input.hpp"
#include "tests/unit/device/session/client.hpp"

namespace softhca::control {
namespace {

using fuzz::require;

/// A daemon with a divided tenant and a program in it.
class Desk {
 public:
  Desk() {
    spdlog::set_level(spdlog::level::off);
    require(static_cast<bool>(server_.open()), "sockets");
    view_.add_to(methods_);
    require(static_cast<bool>(captures_.open()), "captures");
    captures_.add_to(methods_);
    faults_.add_to(methods_);
    add_reload_methods(methods_, reloader_);
    add_tenant_methods(methods_, reloader_);
    add_revision_methods(methods_, reloader_);
    add_sub_allocation_methods(own_methods_, reloader_, *daemon_.adapter.tenants[0]);
    require(client_.greet() == 0, "session");
  }

  void ask(bool own, std::string_view line) {
    const std::string reply = answer(own ? own_methods_ : methods_, line);
    require(reply.find('\n') == std::string::npos, "one line");
    if (!reply.empty()) check(Json::parse(reply, nullptr, false));
    for (int i = 0; i < 4; ++i) captures_.serve();  // no client reads the captures
    require(faults_.list().size() <= engine::Faults::kMost, "a bound on faults");
    answer(methods_, R"({"jsonrpc":"2.0","method":"fault.remove","params":{"all":true}})");
    require(faults_.list().empty(), "faults end");
    while (!reloader_.layers().tenants().empty()) {
      const std::string name = reloader_.layers().tenants().front().request.name;
      require(static_cast<bool>(reloader_.remove_tenant(name, true, {})), "what was made goes");
    }
    if (daemon_.adapter.config == begin_) return;
    require(static_cast<bool>(reloader_.put_into_force(begin_)), "what it was fits again");
  }

 private:
  static configuration::Config config_in(const std::string& folder) {
    configuration::Config config = small_config();
    config.daemon.runtime_dir = folder;
    config.tenants[0].levels = {{.name = "high", .vcbs = 100, .pcbs = 200, .tvls = 2},
                                {.name = "low", .vcbs = 50, .pcbs = 100}};
    config.tenants[0].levels[1].is_default = true;
    configuration::TenantConfig& made = config.templates.emplace_back(config.tenants[1]);
    made.name = "t";
    made.addresses = {Gid::from_ipv4(0xc6120008)};
    made.vcbs = made.pcbs = 10;
    return config;
  }

  static void check(const Json& reply) {
    if (reply.is_array()) {
      require(!reply.empty(), "no empty batch");
      for (const Json& each : reply) check_one(each);
    } else {
      check_one(reply);
    }
  }
  static void check_one(const Json& reply) {
    require(reply.is_object() && reply.value("jsonrpc", Json()) == "2.0" && reply.contains("id"),
            "an answer of JSON-RPC 2.0");
    require(reply.contains("result") != reply.contains("error"), "a result or an error");
    if (!reply.contains("error")) return;
    const Json& error = reply["error"];
    require(error["code"].is_number_integer() && error["message"].is_string() &&
                !error["message"].get_ref<const std::string&>().empty(),
            "an error says what is wrong");
  }

  Folder folder_;
  Daemon daemon_{config_in(folder_.path())};
  Server server_{daemon_.adapter, *daemon_.general_services, *daemon_.shared_datagrams};
  Reloader reloader_{daemon_.adapter, server_, {}, {}, {}};
  Client client_{daemon_};
  AdminView view_{daemon_.adapter,
                  [this] { return std::vector<const DeviceSession*>{&client_.session()}; }};
  AdminCaptures captures_{daemon_.adapter};
  AdminFaults faults_{daemon_.adapter};
  AdminMethods methods_, own_methods_;
  const configuration::Config begin_ = daemon_.adapter.config;
};

}  // namespace
}  // namespace softhca::control

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static softhca::control::Desk desk;
  softhca::fuzz::Input input(data, size);
  const bool own = input.flag();
  const auto line = input.rest();
  desk.ask(own, {reinterpret_cast<const char*>(line.data()), line.size()});
  return 0;
}
