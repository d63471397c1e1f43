// SPDX-License-Identifier: Apache-2.0

#include "daemon/tenant_memory/machine.hpp"

#include <fcntl.h>

#include <cerrno>
#include <string>

#include "daemon/base/system_error.hpp"

namespace softhca::memory {
namespace {

// Parts of the region: a sixteenth for VCB pages, three for rings, the rest for memory regions.
constexpr std::uint64_t kVcbPart = 16;
constexpr std::uint64_t kSharedPart = 4;

std::uint64_t down_to(std::uint64_t n, std::uint64_t unit) { return n / unit * unit; }

}  // namespace

Expected<std::shared_ptr<Machine>> Machine::create(std::uint64_t bytes, Terms terms) {
  std::shared_ptr<Machine> machine(new Machine(std::move(terms)));
  auto memory = SealedMemory::create("softhca-machine", bytes, machine->terms_.lock);
  if (!memory) return memory.error();
  machine->memory_ = std::move(*memory);
  if (auto kept = machine->memory_.keep(machine->terms_.keeping); !kept) return kept.error();
  auto kept_fd = Kept::descriptor(machine->terms_.keeping, machine->memory_.fd());
  if (!kept_fd) return kept_fd.error();
  machine->kept_fd_ = std::move(*kept_fd);
  machine->fd_ = machine->memory_.take_fd();
  return machine;
}

Expected<std::shared_ptr<Machine>> Machine::adopt(const KeptRegion& kept, Terms terms) {
  std::shared_ptr<Machine> machine(new Machine(std::move(terms)));
  Keeping& keeping = *machine->terms_.keeping;
  machine->fd_ = keeping.descriptor(kept.descriptor);
  auto memory = SealedMemory::adopt(keeping, kept.memory, machine->terms_.lock);
  if (!memory) return memory.error();
  machine->memory_ = std::move(*memory);
  if (!machine->fd_) return Error{"the region of a virtual machine is not kept", EBADMSG};
  machine->memory_.take_fd();
  machine->kept_fd_ = Kept(&keeping, kept.descriptor);
  machine->is_sealed_ = kept.is_sealed != 0;
  machine->is_adopted_ = true;
  if (kept.has_started == 0) return machine;
  if (auto started = machine->start(kept.begin); !started) return started.error();
  return machine;
}

Machine::~Machine() {
  if (terms_.unmap) terms_.unmap(std::move(memory_));
}

Machine::KeptRegion Machine::kept() const {
  return {.memory = memory_.kept(),
          .descriptor = kept_fd_.id(),
          .bytes = memory_.bytes(),
          .begin = begin_,
          .has_started = has_started_,
          .is_sealed = is_sealed_};
}

Outcome Machine::start(std::uint64_t begin) {
  if (has_started_) return Error{"the virtual machine has started already", EALREADY};
  const std::uint64_t bytes = memory_.bytes();
  if (begin % abi::kPageBytes != 0 || begin > bytes / 2)
    return Error{"the guest's device begins at byte " + std::to_string(begin) +
                     " of the region: must be the start of a page in its first half",
                 EINVAL};
  const std::uint64_t rings_begin = begin + down_to((bytes - begin) / kVcbPart, kVcbBytes);
  const std::uint64_t shared_begin = begin + down_to((bytes - begin) / kSharedPart, kVcbBytes);
  if (rings_begin + kProxyBytes >= shared_begin)
    return Error{"the guest's device begins at byte " + std::to_string(begin) +
                     " of the region, which leaves no room for queues",
                 EINVAL};
  begin_ = begin;
  rings_begin_ = rings_begin;
  shared_begin_ = shared_begin;
  vcbs_ = Gaps(begin_, rings_begin_);
  rings_ = Gaps(rings_begin_ + kProxyBytes, shared_begin_);
  has_started_ = true;
  return {};
}

Expected<UniqueFd> Machine::descriptor_to_seal() const {
  UniqueFd copy(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return system_error("descriptor of a region");
  return copy;
}

SealedMemory Machine::make_piece(std::size_t at, std::size_t bytes) {
  count_queues(at, static_cast<std::int64_t>(bytes));
  const KeptId name = kPieceMark | at / abi::kPageBytes << kPageBits | bytes / abi::kPageBytes;
  return SealedMemory::piece(shared_from_this(), {memory_.base() + at, bytes}, at - begin_,
                             terms_.keeping != nullptr ? name : 0);
}

/// Counts bytes that are taken, or, if it is negative, given back. VCBs and registered memory have
/// metrics of their own.
void Machine::count_queues(std::size_t at, std::int64_t bytes) {
  if (terms_.queues_in_use == nullptr || at < rings_begin_ || at >= shared_begin_) return;
  terms_.queues_in_use->fetch_add(static_cast<std::uint64_t>(bytes), std::memory_order_relaxed);
}

Expected<SealedMemory> Machine::take_from(Gaps& gaps, std::size_t bytes) {
  const std::size_t size = SealedMemory::round_to_pages(bytes);
  const std::lock_guard lock(mutex_);
  const auto at = gaps.take(size);
  if (!at)
    return Error{"the virtual machine's region has no " + std::to_string(size) +
                     " bytes left for sessions and rings",
                 ENOMEM};
  if (is_adopted_) memory_.clear(*at, size);  // a piece of the earlier adapter may have been there
  return make_piece(*at, size);
}

Expected<SealedMemory> Machine::take(std::size_t bytes) { return take_from(rings_, bytes); }

Expected<SealedMemory> Machine::take_vcbs() { return take_from(vcbs_, kVcbBytes); }

Expected<SealedMemory> Machine::adopt(KeptId piece) {
  constexpr KeptId kPages = (KeptId{1} << kPageBits) - 1;
  const std::size_t at = (piece >> kPageBits & kPages) * abi::kPageBytes;
  const std::size_t bytes = (piece & kPages) * abi::kPageBytes;
  const std::lock_guard lock(mutex_);
  if (bytes == 0 || !(at < rings_begin_ ? vcbs_ : rings_).take_at(at, bytes))
    return Error{"a piece of a virtual machine's region is not free", EBADMSG};
  return make_piece(at, bytes);
}

void Machine::take_back(std::uint64_t offset, std::size_t bytes) {
  const std::size_t at = begin_ + offset;
  if (at >= shared_begin_) return;
  // Here, as a thread of the tenant gives large pieces back. Whatever the machine writes there
  // later is as if it wrote it into a piece.
  memory_.clear(at, bytes);
  count_queues(at, -static_cast<std::int64_t>(bytes));
  const std::lock_guard lock(mutex_);
  (at < rings_begin_ ? vcbs_ : rings_).give_back(at, bytes);
}

std::shared_ptr<SharedBuffer> Machine::shared() {
  const std::lock_guard lock(mutex_);
  auto buffer = shared_.lock();
  if (buffer != nullptr) return buffer;
  SealedMemory part = make_piece(shared_begin_, memory_.bytes() - shared_begin_);
  part.take_to_seal();
  buffer = std::make_shared<SharedBuffer>(std::move(part));
  shared_ = buffer;
  return buffer;
}

Expected<SealedMemory> MemorySource::create(const char* name, std::size_t bytes) const {
  if (machine != nullptr && *machine != nullptr) return (*machine)->take(bytes);
  auto memory = SealedMemory::create(name, bytes, lock);
  if (!memory) return memory.error();
  if (auto kept = memory->keep(keeping); !kept) return kept.error();
  return memory;
}

Expected<SealedMemory> MemorySource::adopt(KeptId kept) const {
  if (!Machine::is_piece(kept)) return SealedMemory::adopt(*keeping, kept, lock);
  if (machine != nullptr && *machine != nullptr) return (*machine)->adopt(kept);
  return Error{"memory of a virtual machine that has gone", EBADMSG};
}

}  // namespace softhca::memory
