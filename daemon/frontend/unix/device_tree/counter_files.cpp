// SPDX-License-Identifier: Apache-2.0

#include "daemon/frontend/unix/device_tree/counter_files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "daemon/base/system_error.hpp"
#include "daemon/base/unique_fd.hpp"
#include "daemon/counters/device_port.hpp"
#include "daemon/counters/tenant_counters.hpp"
#include "daemon/frontend/unix/device_tree/device_tree.hpp"

namespace softhca::control {
namespace {

constexpr std::array<const char*, 2> kFolders{"counters", "hw_counters"};

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
  const std::array<Figures, 2> figures = figures_of(engine::Tenant(), {});
  for (std::size_t i = 0; i < kFolders.size(); ++i) {
    const std::string shown = root + "/" + port_folder(device, 1) + "/" + kFolders[i];
    folders_.push_back({make_copy(shown, figures[i], zero),
                        make_copy(staged + "/" + kFolders[i], figures[i], zero)});
  }
}

std::array<CounterFiles::Figures, 2> CounterFiles::figures_of(
    const engine::Tenant& tenant, const std::vector<std::unique_ptr<engine::PortBinding>>& ports) {
  const management::PmaCounters port = counters::port_counters_of(tenant, ports);
  Figures all, hardware{{"lifespan", 1000}, {"rx_icrc_encapsulated", port.bad_icrc}};
  for (const management::PmaCounter& counter : management::kPmaCounters)
    if (counter.file != nullptr) all.emplace_back(counter.file, counter.value(port));
  counters::for_each_table(tenant, [&](const auto& rows, const auto& from, counters::Label) {
    for (const auto& row : rows)
      if (row.also.file != nullptr)
        hardware.emplace_back(row.also.file, counters::sum_of(row, from));
  });
  return {std::move(all), std::move(hardware)};
}

CounterFiles::Copy CounterFiles::make_copy(const std::string& path, const Figures& figures,
                                           const std::string& zero) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  Copy copy{path, {}};
  for (const auto& [name, figure] : figures) {
    File& file = copy.files.emplace_back();
    if (::link(zero.c_str(), (path + "/" + name).c_str()) == 0) file.figure = 0;
  }
  return copy;
}

Outcome CounterFiles::update(const engine::Tenant& tenant,
                             const std::vector<std::unique_ptr<engine::PortBinding>>& ports) {
  const std::array<Figures, 2> figures = figures_of(tenant, ports);
  for (std::size_t i = 0; i < folders_.size(); ++i)
    if (auto shown = show(folders_[i], figures[i]); !shown) return shown;
  return {};
}

Outcome CounterFiles::show(Folder& folder, const Figures& figures) {
  const auto holds = [](const File& file, const Figures::value_type& figure) {
    return file.figure == figure.second;
  };
  auto& [shown, staged] = folder;
  if (std::equal(shown.files.begin(), shown.files.end(), figures.begin(), holds)) return {};
  for (std::size_t i = 0; i < figures.size(); ++i) {
    if (holds(staged.files[i], figures[i])) continue;
    const std::string path = staged.path + "/" + figures[i].first;
    if (!write(path, staged.files[i], figures[i].second))
      return system_error("cannot write " + path);
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
  if (!is_lacking(errno)) return system_error("cannot replace " + staged.path);
  // This file system cannot exchange folders, so the files are written in the visible folder.
  staged = shown;
  return show(folder, figures);
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
