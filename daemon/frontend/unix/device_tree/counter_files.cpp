// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/device_tree/counter_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <span>
#include <utility>

#include "daemon/base/system_error.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/frontend/unix/device_tree/device_tree.hpp"

namespace softhca::control {
namespace {

using transport::Count;

struct Source {
  const engine::TenantCounters& own;
  engine::DevicePortCounters port;
  std::uint64_t link_downed;
};

struct Figure {
  const char* file;
  std::uint64_t (*value)(const Source&);
};

std::uint64_t none(const Source&) { return 0; }

template <Count what>
std::uint64_t of(const Source& f) {
  return f.own.value(what);
}

// The counters of IBA 16.1.3.5, except port_xmit_wait, which the daemon does not count.
constexpr Figure kCounters[] = {
    {"port_xmit_data", [](const Source& f) { return f.port.transmitted_octets / 4; }},
    {"port_rcv_data", [](const Source& f) { return f.port.received_octets / 4; }},
    {"port_xmit_packets", [](const Source& f) { return f.port.transmitted_packets; }},
    {"port_rcv_packets", [](const Source& f) { return f.port.received_packets; }},
    {"unicast_xmit_packets", [](const Source& f) { return f.port.transmitted_unicast(); }},
    {"unicast_rcv_packets", [](const Source& f) { return f.port.received_unicast(); }},
    {"multicast_xmit_packets", [](const Source& f) { return f.port.transmitted_multicast; }},
    {"multicast_rcv_packets", [](const Source& f) { return f.port.received_multicast; }},
    {"port_rcv_errors", [](const Source& f) { return f.port.receive_errors; }},
    {"port_xmit_discards", [](const Source& f) { return f.port.transmit_discards; }},
    {"link_downed", [](const Source& f) { return f.link_downed; }},
    // The link of a RoCE port is Ethernet, not InfiniBand. It has no symbols, no flow control, no
    // virtual lane 15 and no end-bad-packet delimiter, and does not filter by partition for a
    // switch. So these counters stay 0.
    {"symbol_error", none},
    {"link_error_recovery", none},
    {"local_link_integrity_errors", none},
    {"excessive_buffer_overrun_errors", none},
    {"VL15_dropped", none},
    {"port_rcv_remote_physical_errors", none},
    {"port_rcv_switch_relay_errors", none},
    {"port_rcv_constraint_errors", none},
    {"port_xmit_constraint_errors", none},
};

// The names are those of the mlx5 driver where it has one.
constexpr Figure kHardwareCounters[] = {
    {"lifespan", [](const Source&) -> std::uint64_t { return 1000; }},  // ms between figures
    {"out_of_sequence", of<Count::kOutOfSequence>},
    {"packet_seq_err", of<Count::kSequenceNakReceived>},
    {"local_ack_timeout_err", of<Count::kAckTimeouts>},
    {"rnr_nak_retry_err", of<Count::kRnrNakReceived>},
    {"duplicate_request", of<Count::kDuplicateRequests>},
    {"implied_nak_seq_err", of<Count::kImpliedNak>},
    {"out_of_buffer",
     [](const Source& f) {
       return f.own.value(Count::kReceiveDropped) + f.own.value(Count::kRnrNakSent);
     }},
    {"req_remote_access_errors", of<Count::kAccessNakReceived>},
    {"req_remote_invalid_request", of<Count::kInvalidNakReceived>},
    {"resp_remote_access_errors", of<Count::kAccessNakSent>},
    {"rx_write_requests", of<Count::kWriteRequests>},
    {"rx_read_requests", of<Count::kReadRequests>},
    {"rx_atomic_requests", of<Count::kAtomicRequests>},
    {"rx_icrc_encapsulated", [](const Source& f) { return f.port.bad_icrc; }},
    {"np_ecn_marked_roce_packets",
     [](const Source& f) { return f.own.congestion.marked_packets.value(); }},
    {"np_cnp_sent", [](const Source& f) { return f.own.congestion.cnps_sent.value(); }},
    {"rp_cnp_handled", [](const Source& f) { return f.own.congestion.cnps_handled.value(); }},
    {"rp_cnp_ignored", [](const Source& f) { return f.own.congestion.cnps_ignored.value(); }},
    {"local_messages", [](const Source& f) { return f.own.local_messages.value(); }},
    {"local_bytes", [](const Source& f) { return f.own.local_bytes.value(); }},
};

struct Kind {
  const char* folder;
  std::span<const Figure> figures;
};
constexpr Kind kKinds[] = {{"counters", kCounters}, {"hw_counters", kHardwareCounters}};

bool is_lacking(int error) { return error == EINVAL || error == ENOSYS || error == EXDEV; }

/// Makes a new file in place of an existing one. Follows no link, and waits for no FIFO.
UniqueFd create(const std::string& path) {
  ::unlink(path.c_str());
  return UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
}

}  // namespace

std::string CounterFiles::staged_in(const std::string& tenant_folder) {
  return tenant_folder + "/.counters";
}

CounterFiles::CounterFiles(const std::string& root, const std::string& device) {
  namespace fs = std::filesystem;
  const std::string staged = staged_in(fs::path(root).parent_path().string());
  std::error_code error;  // update() reports what could not be made
  fs::remove_all(staged, error);
  fs::create_directories(staged, error);
  const std::string zero = staged + "/zero";
  File written;
  write(zero, written, 0);
  for (std::size_t kind = 0; kind < std::size(kKinds); ++kind) {
    const std::string shown = root + "/" + port_folder(device) + "/" + kKinds[kind].folder;
    folders_.push_back(
        {make_copy(shown, kind, zero), make_copy(staged + "/" + kKinds[kind].folder, kind, zero)});
  }
}

CounterFiles::Copy CounterFiles::make_copy(const std::string& path, std::size_t kind,
                                           const std::string& zero) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  Copy copy{path, {}};
  for (const Figure& figure : kKinds[kind].figures) {
    File& file = copy.files.emplace_back();
    if (::link(zero.c_str(), (path + "/" + figure.file).c_str()) == 0) file.figure = 0;
  }
  return copy;
}

Outcome CounterFiles::update(const engine::Tenant& tenant,
                             const std::vector<std::unique_ptr<engine::PortBinding>>& ports) {
  const Source source{tenant.counters, engine::port_counters_of(tenant, ports),
                      tenant.control.link_downed.value()};
  for (std::size_t kind = 0; kind < folders_.size(); ++kind) {
    std::vector<std::uint64_t> figures;
    for (const Figure& figure : kKinds[kind].figures) figures.push_back(figure.value(source));
    if (auto shown = show(folders_[kind], figures, kind); !shown) return shown;
  }
  return {};
}

Outcome CounterFiles::show(Folder& folder, const std::vector<std::uint64_t>& figures,
                           std::size_t kind) {
  const auto holds = [](const File& file, std::uint64_t figure) { return file.figure == figure; };
  auto& [shown, staged] = folder;
  if (std::equal(shown.files.begin(), shown.files.end(), figures.begin(), holds)) return {};
  for (std::size_t i = 0; i < figures.size(); ++i) {
    if (holds(staged.files[i], figures[i])) continue;
    const std::string path = staged.path + "/" + kKinds[kind].figures[i].file;
    if (!write(path, staged.files[i], figures[i])) return system_error("cannot write " + path);
  }
  if (staged.path == shown.path) {
    shown = staged;
    return {};
  }
  if (::renameat2(AT_FDCWD, staged.path.c_str(), AT_FDCWD, shown.path.c_str(), RENAME_EXCHANGE) ==
      0) {
    std::swap(shown.files, staged.files);
    return {};
  }
  if (!is_lacking(errno)) return system_error("cannot exchange " + staged.path);
  // This file system cannot exchange folders, so the files are written in the visible folder.
  staged = shown;
  return show(folder, figures, kind);
}

bool CounterFiles::write(const std::string& path, File& file, std::uint64_t figure) {
  std::array<char, 24> text;
  char* const end = std::to_chars(text.data(), text.data() + text.size() - 1, figure).ptr;
  *end = '\n';
  const auto length = end + 1 - text.data();
  constexpr int kFlags = O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const UniqueFd fd = file.own ? UniqueFd(::open(path.c_str(), kFlags)) : create(path);
  file.own = static_cast<bool>(fd);
  // A figure can decrease: the errors of a port no longer count when the tenant leaves it.
  const bool shorter = !file.figure || figure < *file.figure;
  file.figure.reset();
  if (!fd || ::pwrite(fd.get(), text.data(), static_cast<std::size_t>(length), 0) != length ||
      (shorter && ::ftruncate(fd.get(), length) != 0))
    return false;
  file.figure = figure;
  return true;
}

}  // namespace softhca::control
