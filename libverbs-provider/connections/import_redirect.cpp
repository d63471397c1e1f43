// SPDX-License-Identifier: Apache-2.0

#include "libverbs-provider/connections/import_redirect.hpp"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>

namespace softhca::provider {
namespace {

struct LoadedObject {
  ElfW(Addr) base = 0;
  const ElfW(Dyn) * dynamic = nullptr;
  ElfW(Addr) relro_begin = 0;
  ElfW(Addr) relro_end = 0;

  explicit LoadedObject(const dl_phdr_info& info) : base(info.dlpi_addr) {
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      const ElfW(Phdr)& header = info.dlpi_phdr[i];
      const ElfW(Addr) begin = base + header.p_vaddr;
      if (header.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(begin);
      if (header.p_type == PT_GNU_RELRO) {
        relro_begin = begin;
        relro_end = begin + header.p_memsz;
      }
    }
  }
};

bool contains(const dl_phdr_info& info, const void* inside) {
  const auto address = reinterpret_cast<ElfW(Addr)>(inside);
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info.dlpi_phdr[i];
    const ElfW(Addr) begin = info.dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD && address >= begin && address < begin + header.p_memsz)
      return true;
  }
  return false;
}

bool is_file(const dl_phdr_info& info, const char* beginning) {
  const char* slash = std::strrchr(info.dlpi_name, '/');
  const char* file = slash != nullptr ? slash + 1 : info.dlpi_name;
  return std::strncmp(file, beginning, std::strlen(beginning)) == 0;
}

/// The dynamic section's table of imports. The loader makes its addresses absolute on machines with
/// a writable dynamic section, and leaves them relative on others.
struct Imports {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  struct Table {
    const ElfW(Rela) * entries = nullptr;
    std::size_t bytes = 0;
  } tables[2];

  explicit Imports(const LoadedObject& object) {
    const auto absolute = [&](ElfW(Addr) a) { return a < object.base ? a + object.base : a; };
    for (const ElfW(Dyn)* d = object.dynamic; d->d_tag != DT_NULL; ++d) {
      const ElfW(Addr) address = absolute(d->d_un.d_ptr);
      switch (d->d_tag) {
        case DT_SYMTAB:
          symbols = reinterpret_cast<const ElfW(Sym)*>(address);
          break;
        case DT_STRTAB:
          names = reinterpret_cast<const char*>(address);
          break;
        case DT_JMPREL:
          tables[0].entries = reinterpret_cast<const ElfW(Rela)*>(address);
          break;
        case DT_PLTRELSZ:
          tables[0].bytes = d->d_un.d_val;
          break;
        case DT_RELA:
          tables[1].entries = reinterpret_cast<const ElfW(Rela)*>(address);
          break;
        case DT_RELASZ:
          tables[1].bytes = d->d_un.d_val;
          break;
        default:
          break;
      }
    }
  }

  /// Returns the address of the import's slot, or 0 if there is none.
  ElfW(Addr) slot(const LoadedObject& object, const char* name) const {
    for (const Table& table : tables) {
      for (std::size_t i = 0; i < table.bytes / sizeof(ElfW(Rela)); ++i) {
        const auto symbol = ELF64_R_SYM(table.entries[i].r_info);
        if (symbol != 0 && std::strcmp(names + symbols[symbol].st_name, name) == 0)
          return object.base + table.entries[i].r_offset;
      }
    }
    return 0;
  }
};

bool store(const LoadedObject& object, ElfW(Addr) slot, void* value) {
  // Atomic, because other threads may call through the slot.
  const std::atomic_ref<void*> import(*reinterpret_cast<void**>(slot));
  if (import.load(std::memory_order_relaxed) == value) return true;
  const auto page_bytes = static_cast<ElfW(Addr)>(::sysconf(_SC_PAGESIZE));
  auto* page = reinterpret_cast<void*>(slot & ~(page_bytes - 1));
  if (::mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) return false;
  import.store(value, std::memory_order_release);
  if (slot >= object.relro_begin && slot < object.relro_end)
    ::mprotect(page, page_bytes, PROT_READ);
  return true;
}

enum class Outcome { kDone, kAbsent, kFailed };

Outcome redirect(const dl_phdr_info& info, const Redirection& redirection) {
  const LoadedObject object(info);
  if (object.dynamic == nullptr) return Outcome::kAbsent;
  const Imports imports(object);
  if (imports.symbols == nullptr || imports.names == nullptr) return Outcome::kAbsent;
  const ElfW(Addr) slot = imports.slot(object, redirection.name);
  if (slot == 0) return Outcome::kAbsent;
  return store(object, slot, redirection.replacement) ? Outcome::kDone : Outcome::kFailed;
}

}  // namespace

bool redirect_import(const void* inside, const char* name, void* replacement) {
  struct Search {
    const void* inside;
    Redirection redirection;
    bool done;
  } search{inside, {name, replacement}, false};
  const auto visit = [](dl_phdr_info* info, std::size_t, void* argument) {
    auto& wanted = *static_cast<Search*>(argument);
    if (!contains(*info, wanted.inside)) return 0;
    wanted.done = redirect(*info, wanted.redirection) == Outcome::kDone;
    return 1;
  };
  ::dl_iterate_phdr(visit, &search);
  return search.done;
}

void redirect_imports_of(const char* file, std::span<const Redirection> redirections) {
  struct Search {
    const char* file;
    std::span<const Redirection> redirections;
  } search{file, redirections};
  const auto visit = [](dl_phdr_info* info, std::size_t, void* argument) {
    const auto& wanted = *static_cast<const Search*>(argument);
    if (!is_file(*info, wanted.file)) return 0;
    for (const Redirection& redirection : wanted.redirections)
      if (redirect(*info, redirection) == Outcome::kFailed) break;
    return 0;
  };
  ::dl_iterate_phdr(visit, &search);
}

}  // namespace softhca::provider
