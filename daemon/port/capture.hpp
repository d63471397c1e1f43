// Writes the packets of a port, in both directions, to a pcapng file for tshark and Wireshark.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/expected.hpp"
#include "daemon/port/port.hpp"

namespace softhca::port {

enum class Direction : std::uint8_t { kInbound = 1, kOutbound = 2 };  // as in pcapng's epb_flags

/// Since 1970-01-01 00:00 UTC, as readers of captures expect.
using WallTime = std::chrono::nanoseconds;
using WallClock = std::function<WallTime()>;

/// A pcapng file with one Ethernet interface and nanosecond time stamps.
class CaptureFile {
 public:
  /// Creates or empties the file. Drops frames after the first `most_frames`.
  static Expected<std::unique_ptr<CaptureFile>> create(const std::string& path,
                                                       std::uint64_t most_frames);
  void write(std::span<const std::byte> frame, Direction direction, WallTime when);
  /// Writes buffered frames to the file, so that it can be read while the capture goes on.
  void flush();

 private:
  struct Closer {
    void operator()(std::FILE* f) const { std::fclose(f); }
  };
  CaptureFile(std::FILE* file, std::uint64_t most_frames);

  std::unique_ptr<std::FILE, Closer> file_;
  std::uint64_t left_;
  bool unflushed_ = false;
};

/// A debugging aid: it writes to a file from the thread that drives the port. It stamps each frame
/// with the time at which it passes; frames of one receive() have the same time.
class CapturePort final : public Port {
 public:
  CapturePort(std::unique_ptr<Port> inner, std::unique_ptr<CaptureFile> file, WallClock clock)
      : inner_(std::move(inner)), file_(std::move(file)), clock_(std::move(clock)) {}

  std::size_t receive(std::span<Frame> out) override;
  void release(std::span<const Frame> frames) override { inner_->release(frames); }
  Frame allocate() override { return inner_->allocate(); }
  void transmit(const Frame& frame) override;
  void flush() override;

  const KernelHeaders* kernel_headers() const override { return inner_->kernel_headers(); }
  MacAddress mac() const override { return inner_->mac(); }
  std::uint32_t mtu() const override { return inner_->mtu(); }
  bool link_up() const override { return inner_->link_up(); }
  PortCounters counters() const override { return inner_->counters(); }
  int wait_fd() const override { return inner_->wait_fd(); }
  void prepare_sleep() override { inner_->prepare_sleep(); }

 private:
  std::unique_ptr<Port> inner_;
  std::unique_ptr<CaptureFile> file_;
  WallClock clock_;
};

}  // namespace softhca::port
