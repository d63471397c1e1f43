// SPDX-License-Identifier: Apache-2.0

#include "daemon/operate/admin/admin_captures.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <iterator>

#include "daemon/base/system_error.hpp"
#include "daemon/device/adapter/control_clock.hpp"
#include "daemon/engine/diagnostics/capture_remarks.hpp"
#include "daemon/engine/ports/port_binding.hpp"
#include "daemon/engine/requests/diagnostic_requests.hpp"
#include "daemon/operate/admin/admin_view.hpp"
#include "daemon/operate/admin/diagnoses.hpp"

namespace softhca::control {
namespace {

using std::chrono::system_clock;

constexpr std::size_t kCaptures = 4;
constexpr std::size_t kRingBytes = std::size_t{16} << 20;
constexpr std::size_t kLeastRingBytes = std::size_t{64} << 10;
constexpr std::size_t kMostRingBytes = std::size_t{64} << 20;
constexpr std::uint32_t kMostSnaplen = 256 << 10;  // longer than any frame, trains included

std::chrono::nanoseconds time_of_day() {
  const auto day = system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(day) - now().time_since_epoch();
}

RpcError failed(const Error& error) { return {RpcCode::kInternalError, error.message, {}}; }

}  // namespace

AdminCaptures::~AdminCaptures() {
  while (!entries_.empty()) end(entries_.front());
}

Outcome AdminCaptures::open() {
  epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return system_error("captures");
  return {};
}

void AdminCaptures::add_to(AdminMethods& methods) {
  methods.add("capture.start", [this](const Json& params, const PeerIdentity& caller) {
    return start(params, caller);
  });
  methods.add("captures", [this](const Json&) { return list(); });
}

void AdminCaptures::serve() {
  epoll_event event;
  if (::epoll_wait(epoll_.get(), &event, 1, 0) != 1) return;
  end(*static_cast<Entry*>(event.data.ptr));
}

Expected<engine::CaptureOptions> AdminCaptures::options_of(const Json& params) const {
  engine::CaptureOptions options{.tenant = param<std::string>(params, "tenant", ""),
                                 .port = std::nullopt,
                                 .snaplen = kMostSnaplen,
                                 .time_of_day = time_of_day()};
  const auto port = param<std::string>(params, "port", "");
  options.port = adapter_.find_port(port);
  if (!port.empty() && !options.port) return Error{"no such port: " + port, ENOENT};
  bool known = options.tenant.empty();
  for (const auto& tenant : adapter_.tenants) known = known || tenant->name == options.tenant;
  if (!known) return Error{"no such tenant: " + options.tenant, ENOENT};
  return options;
}

RpcResult AdminCaptures::start(const Json& params, const PeerIdentity& caller) {
  const auto snaplen = param<std::uint64_t>(params, "snaplen", kMostSnaplen);
  if (snaplen == 0 || snaplen > kMostSnaplen)
    return invalid_params("snaplen must be 1 to " + std::to_string(kMostSnaplen));
  auto options = options_of(params);
  if (!options) return RpcError{RpcCode::kNoSuchThing, options.error().message, {}};
  options->snaplen = static_cast<std::uint32_t>(snaplen);
  const auto ring_bytes = param(params, "ring_bytes", kRingBytes);
  if (!std::has_single_bit(ring_bytes) || ring_bytes < kLeastRingBytes ||
      ring_bytes > kMostRingBytes)
    return invalid_params("ring_bytes must be a power of two, " + std::to_string(kLeastRingBytes) +
                          " to " + std::to_string(kMostRingBytes));
  if (entries_.size() >= kCaptures)
    return RpcError{
        RpcCode::kRefused,
        std::to_string(kCaptures) +
            " captures are running, the most possible; `captures` lists them with their processes",
        Json{{"resource", "captures"}, {"asked", 1}, {"free", 0}}};
  return begin(ring_bytes, std::move(*options), caller);
}

RpcResult AdminCaptures::begin(std::size_t ring_bytes, engine::CaptureOptions options,
                               const PeerIdentity& caller) {
  auto memory =
      SealedMemory::create("softhca-capture", engine::CaptureRing::memory_for(ring_bytes));
  if (!memory) return failed(memory.error());
  // Allocates the pages before the engine writes to them. A process that captures can free the
  // pages again, and the engine then waits for new ones. So only the operator may capture.
  memory->clear(0, memory->bytes());
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC | O_NONBLOCK) != 0) return failed(system_error("capture"));
  Entry& entry = entries_.emplace_back();
  entry.self = std::prev(entries_.end());
  entry.life = UniqueFd(pipe[0]);
  std::vector<UniqueFd> descriptors;
  descriptors.push_back(memory->take_fd());
  descriptors.emplace_back(pipe[1]);
  entry.memory = std::move(*memory);
  entry.who = caller;
  entry.options = std::move(options);
  entry.since = system_clock::now();
  epoll_event event{};
  event.data.ptr = &entry;  // epoll always reports EPOLLHUP
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, entry.life.get(), &event) != 0) {
    entries_.pop_back();
    return failed(system_error("capture"));
  }
  entry.capture = std::make_unique<engine::Capture>(
      std::span(entry.memory.base(), engine::CaptureRing::memory_for(ring_bytes)), entry.options,
      adapter_.engine.captures.sizes());
  adapter_.worker.run(engine::AddCapture{*entry.capture});
  entry.record = record_diagnosis(adapter_, "capture_ended", "the capture of " + packets_of(entry));
  note(entry, "capture_started", "captures");
  RpcResult result(Json{{"version", abi::kCaptureVersion},
                        {"ring_bytes", ring_bytes},
                        {"remarks", engine::capture_remarks()}});
  result.attach(std::move(descriptors));
  return result;
}

void AdminCaptures::end(Entry& entry) {
  adapter_.worker.run(engine::RemoveCapture{*entry.capture});
  note(entry, "capture_ended", "stopped capturing");
  entries_.erase(entry.self);
}

std::string AdminCaptures::packets_of(const Entry& entry) const {
  std::string text = "packets of ";
  text += entry.options.tenant.empty() ? "all tenants" : "tenant " + entry.options.tenant;
  if (entry.options.port)
    text += ", port " + adapter_.engine.ports[entry.options.port->value]->name;
  return text;
}

/// Adds an entry to the journal. The entry belongs to no tenant, so that events of a tenant's
/// programs cannot displace it.
void AdminCaptures::note(const Entry& entry, const char* kind, const char* does) {
  const std::string text = "user " + std::to_string(entry.who.uid) + ", process " +
                           std::to_string(entry.who.pid) + " " + does + " " + packets_of(entry);
  adapter_.journal.add(
      {.kind = kind, .text = text, .process = static_cast<std::uint32_t>(entry.who.pid)});
}

RpcResult AdminCaptures::list() const {
  Json captures = Json::array();
  for (const Entry& entry : entries_) {
    Json one = {{"pid", entry.who.pid},
                {"uid", entry.who.uid},
                {"ring_bytes", entry.memory.bytes() - abi::kCaptureRing},
                {"time", static_cast<double>(entry.since.time_since_epoch() /
                                             std::chrono::milliseconds(1)) /
                             1000}};
    if (!entry.options.tenant.empty()) one["tenant"] = entry.options.tenant;
    if (entry.options.port) one["port"] = adapter_.engine.ports[entry.options.port->value]->name;
    captures.push_back(std::move(one));
  }
  return Json{{"captures", std::move(captures)}};
}

}  // namespace softhca::control
