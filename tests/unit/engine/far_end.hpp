// A port of the parts under test, and the host at the far end of its link, which the test plays.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "daemon/engine/packet_io.hpp"
#include "daemon/port/memory_port.hpp"

namespace softhca::engine {

class FarEnd {
 public:
  using Bytes = std::vector<std::byte>;

  /// The next port of `packets` has the address `near`, the host the address `far`.
  FarEnd(PacketIo& packets, const StepClock& clock, const Gid& near, const Gid& far)
      : packets_(packets), clock_(clock), near_(near), far_(far) {
    auto [left, right] = port::MemoryPort::make_pair();
    port_ = std::move(right);
    auto binding = std::make_unique<PortBinding>();
    binding->id = PortId(static_cast<std::uint8_t>(packets.ports().size()));
    port::Port* const port = left.get();
    binding->port = std::move(left);
    binding->neighbours = std::make_unique<neighbour::Neighbours>(
        neighbour::Neighbours::Options{.mac = port->mac()},
        [port](std::span<const std::byte> question) { transmit(*port, question); });
    binding->neighbours->add_address({near, 24, true});
    binding_ = binding.get();
    packets.add_port(std::move(binding));
  }

  PortBinding& binding() { return *binding_; }
  /// Returns the received frames. Answers address resolution requests instead of returning them.
  std::vector<Bytes> receive() {
    neighbour::Neighbours neighbours({.mac = port_->mac()},
                                     [this](std::span<const std::byte> answer) { put(answer); });
    neighbours.add_address({far_, 24, true});
    std::array<port::Frame, 32> frames;
    std::vector<Bytes> out;
    const std::size_t count = port_->receive(frames);
    for (std::size_t i = 0; i < count; ++i)
      if (const auto bytes = frames[i].bytes(); !neighbours.receive(bytes, clock_.now))
        out.emplace_back(bytes.begin(), bytes.end());
    port_->release({frames.data(), count});
    return out;
  }
  void put(std::span<const std::byte> bytes) {
    transmit(*port_, bytes);
    port_->flush();
  }
  /// From the host to `destination`, or to the port's address.
  Bytes packet(const wire::Headers& headers, std::span<const std::byte> payload = {},
               wire::FramePath path = {}) const {
    path.source_mac = port_->mac();
    path.destination_mac = binding_->port->mac();
    if (path.source == Gid()) path.source = far_;
    if (path.destination == Gid()) path.destination = near_;
    const wire::FrameTemplate frame(path);
    Bytes bytes(frame.frame_length(headers.opcode, payload.size()));
    wire::FrameBuilder builder(bytes, frame, headers, payload.size(), 0);
    std::copy(payload.begin(), payload.end(), builder.payload().begin());
    bytes.resize(builder.finish());
    return bytes;
  }
  /// The link address of the host becomes known.
  void introduce() {
    packets_.link_address(*binding_, near_, far_);
    packets_.finish_batch();
    receive();
    packets_.receive([](PortBinding&, const wire::ParsedFrame&) {});
  }

 private:
  static void transmit(port::Port& port, std::span<const std::byte> bytes) {
    port::Frame frame = port.allocate();
    std::copy(bytes.begin(), bytes.end(), frame.data);
    frame.length = static_cast<std::uint32_t>(bytes.size());
    port.transmit(frame);
  }

  PacketIo& packets_;
  const StepClock& clock_;
  Gid near_, far_;
  std::unique_ptr<port::Port> port_;
  PortBinding* binding_ = nullptr;
};

}  // namespace softhca::engine
