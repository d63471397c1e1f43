// SPDX-License-Identifier: Apache-2.0

// softhcactl's end of the ring of a capture (abi/capture.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "abi/capture.hpp"

namespace softhca::cli {

class CaptureReader {
 public:
  /// Maps the memory behind `descriptor`, a ring of `ring_bytes`. Throws CommandError if it cannot
  /// be mapped, or is not as the daemon described it.
  CaptureReader(int descriptor, std::uint64_t ring_bytes);
  ~CaptureReader();
  CaptureReader(const CaptureReader&) = delete;
  CaptureReader& operator=(const CaptureReader&) = delete;

  struct Record {
    abi::CaptureRecord head;
    std::span<const std::byte> bytes;  ///< head.captured bytes, valid until next()
    std::string text() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
  };
  /// Releases the previous record and finds the next one. False: there is none yet. Throws
  /// CommandError if the ring contains something else.
  bool next(Record& out);
  /// Returns the packets of an interface that were dropped for lack of room.
  std::uint64_t dropped(std::uint16_t interface_id) const {
    return header_->dropped[interface_id].load(std::memory_order_relaxed);
  }

 private:
  abi::CaptureHeader* header_ = nullptr;
  const std::byte* ring_ = nullptr;
  std::size_t size_;
  std::uint64_t taken_ = 0;    ///< end of the records released
  std::uint64_t read_ = 0;     ///< end of the current record
  std::uint64_t written_ = 0;  ///< end of the records, as last read from the daemon
};

}  // namespace softhca::cli
