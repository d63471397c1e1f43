#include "libverbs-provider/import_redirect.hpp"

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
  const void* inside;
  ElfW(Addr) base = 0;
  const ElfW(Dyn) * dynamic = nullptr;
  ElfW(Addr) relro_begin = 0;
  ElfW(Addr) relro_end = 0;
};

int match_object(dl_phdr_info* info, std::size_t, void* argument) {
  auto& object = *static_cast<LoadedObject*>(argument);
  const auto address = reinterpret_cast<ElfW(Addr)>(object.inside);
  bool contains = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const ElfW(Addr) begin = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD && address >= begin && address < begin + header.p_memsz)
      contains = true;
  }
  if (!contains) return 0;
  object.base = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    const ElfW(Addr) begin = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_DYNAMIC) object.dynamic = reinterpret_cast<const ElfW(Dyn)*>(begin);
    if (header.p_type == PT_GNU_RELRO) {
      object.relro_begin = begin;
      object.relro_end = begin + header.p_memsz;
    }
  }
  return 1;
}

/// The part of the dynamic section that names imports. The loader has made its addresses absolute
/// on the machines whose dynamic section is writable, and left them relative on the others.
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

  /// Where the address of the import is kept, 0 when there is none.
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
  const auto page_bytes = static_cast<ElfW(Addr)>(::sysconf(_SC_PAGESIZE));
  auto* page = reinterpret_cast<void*>(slot & ~(page_bytes - 1));
  if (::mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) return false;
  // Other threads may be calling through the slot.
  std::atomic_ref<void*>(*reinterpret_cast<void**>(slot)).store(value, std::memory_order_release);
  if (slot >= object.relro_begin && slot < object.relro_end)
    ::mprotect(page, page_bytes, PROT_READ);
  return true;
}

}  // namespace

bool redirect_import(const void* inside, const char* name, void* replacement) {
  LoadedObject object{inside};
  if (::dl_iterate_phdr(match_object, &object) == 0 || object.dynamic == nullptr) return false;
  const Imports imports(object);
  if (imports.symbols == nullptr || imports.names == nullptr) return false;
  const ElfW(Addr) slot = imports.slot(object, name);
  return slot != 0 && store(object, slot, replacement);
}

}  // namespace softhca::provider
