// SPDX-License-Identifier: Apache-2.0

// The functions that start a program. If the environment of the new program has an LD_PRELOAD
// without this library, they append the library: otherwise the program would not find the device.
// `softhca-run env LD_PRELOAD=... PROGRAM` and `mpirun -x LD_PRELOAD` make such environments. They
// do not change an environment without any LD_PRELOAD, or without the tenant's variables. Functions
// that start programs within the C library (system, popen) use the process's own environment, so
// setenv and putenv add the library, too.
//
// The new environment is built on the stack, because the caller may be a child of vfork().
#include <alloca.h>
#include <dlfcn.h>
#include <spawn.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstring>

#include "libverbs-provider/preload/next.hpp"
#include "libverbs-provider/preload/redirect.hpp"

using softhca::preload::Next;

namespace {

constexpr char kVariable[] = "LD_PRELOAD=";
constexpr char kTree[] = "SOFTHCA_SYSFS=";
constexpr char kFile[] = "libsofthca-preload.so";
constexpr std::size_t kMostBytes = 262144;  ///< of stack

bool begins_with(const char* text, const char* beginning) {
  return std::strncmp(text, beginning, std::strlen(beginning)) == 0;
}

/// Returns the name of this library for LD_PRELOAD. If its path has a space, LD_LIBRARY_PATH finds
/// it (softhca-run).
const char* own_name() {
  static constexpr char kAnything = 0;
  Dl_info info;
  if (::dladdr(&kAnything, &info) == 0 || std::strpbrk(info.dli_fname, " :;") != nullptr)
    return kFile;
  return info.dli_fname;
}

/// True if a value of LD_PRELOAD names libraries, but not this one.
bool lacks_us(const char* value) {
  return value[0] != '\0' && std::strstr(value, kFile) == nullptr;
}

/// The change to an environment.
struct Change {
  std::size_t count = 0;     ///< variables
  std::size_t position = 0;  ///< that of LD_PRELOAD
  std::size_t bytes = 0;     ///< size of its new text; 0: no change
  const char* name = nullptr;

  explicit Change(char* const* environment) {
    const char* preload = nullptr;
    bool has_tree = false;
    for (; environment != nullptr && environment[count] != nullptr; ++count) {
      has_tree = has_tree || begins_with(environment[count], kTree);
      if (preload != nullptr || !begins_with(environment[count], kVariable)) continue;
      preload = environment[count];
      position = count;
    }
    if (!has_tree || preload == nullptr || !lacks_us(preload + sizeof kVariable - 1)) return;
    name = own_name();
    bytes = std::strlen(preload) + 1 + std::strlen(name) + 1;
    if (bytes + (count + 1) * sizeof(char*) > kMostBytes) bytes = 0;
  }

  void apply(char* const* environment, char** changed, char* text) const {
    std::memcpy(changed, environment, (count + 1) * sizeof *changed);
    const std::size_t before = std::strlen(environment[position]);
    std::memcpy(text, environment[position], before);
    text[before] = ':';
    std::strcpy(text + before + 1, name);
    changed[position] = text;
  }
};

}  // namespace

// Makes `environment` the environment of the new program. A macro, because the memory from alloca()
// ends with the calling function.
#define ADD_PRELOAD(environment)                                                       \
  const Change change(environment);                                                    \
  if (change.bytes != 0) {                                                             \
    auto* changed = static_cast<char**>(::alloca((change.count + 1) * sizeof(char*))); \
    change.apply(environment, changed, static_cast<char*>(::alloca(change.bytes)));    \
    (environment) = changed;                                                           \
  }

// `environment` is the parameter with the environment; the arguments follow.
#define EXEC_FUNCTION(name, parameters, ...)                             \
  extern "C" SOFTHCA_INTERPOSE int softhca_##name parameters asm(#name); \
  extern "C" int softhca_##name parameters {                             \
    static constinit Next<int parameters> next{#name};                   \
    ADD_PRELOAD(environment)                                             \
    return next.get()(__VA_ARGS__);                                      \
  }

using Words = char* const*;

EXEC_FUNCTION(execve, (const char* path, Words words, Words environment), path, words, environment)
EXEC_FUNCTION(execvpe, (const char* file, Words words, Words environment), file, words, environment)
EXEC_FUNCTION(fexecve, (int fd, Words words, Words environment), fd, words, environment)
EXEC_FUNCTION(execveat,
              (int directory, const char* path, Words words, Words environment, int flags),
              directory, path, words, environment, flags)
EXEC_FUNCTION(posix_spawn,
              (pid_t * pid, const char* path, const posix_spawn_file_actions_t* actions,
               const posix_spawnattr_t* attributes, Words words, Words environment),
              pid, path, actions, attributes, words, environment)
EXEC_FUNCTION(posix_spawnp,
              (pid_t * pid, const char* file, const posix_spawn_file_actions_t* actions,
               const posix_spawnattr_t* attributes, Words words, Words environment),
              pid, file, actions, attributes, words, environment)

extern "C" SOFTHCA_INTERPOSE int softhca_setenv(const char*, const char*, int) asm("setenv");
extern "C" int softhca_setenv(const char* name, const char* value, int replaces) {
  static constinit Next<int(const char*, const char*, int)> next{"setenv"};
  if (name == nullptr || value == nullptr || std::strcmp(name, "LD_PRELOAD") != 0 ||
      !lacks_us(value) || std::strlen(value) > kMostBytes ||
      softhca::preload::device_tree() == nullptr)
    return next.get()(name, value, replaces);
  const char* own = own_name();
  auto* both = static_cast<char*>(::alloca(std::strlen(value) + 1 + std::strlen(own) + 1));
  std::strcpy(both, value);
  std::strcat(std::strcat(both, ":"), own);
  return next.get()(name, both, replaces);
}

extern "C" SOFTHCA_INTERPOSE int softhca_putenv(char*) asm("putenv");
extern "C" int softhca_putenv(char* variable) {
  static constinit Next<int(char*)> next{"putenv"};
  constexpr std::size_t kName = sizeof kVariable - 1;
  if (variable != nullptr && begins_with(variable, kVariable) && lacks_us(variable + kName))
    return softhca_setenv("LD_PRELOAD", variable + kName, 1);
  return next.get()(variable);
}

// The C library implements these by its internal functions.

extern "C" SOFTHCA_INTERPOSE int softhca_execv(const char*, Words) asm("execv");
extern "C" int softhca_execv(const char* path, Words words) {
  return softhca_execve(path, words, ::environ);
}

extern "C" SOFTHCA_INTERPOSE int softhca_execvp(const char*, Words) asm("execvp");
extern "C" int softhca_execvp(const char* file, Words words) {
  return softhca_execvpe(file, words, ::environ);
}

// Collects the words up to the null pointer in an array, `words`, and leaves `list` behind it.
#define GATHER_WORDS(first)                                                                  \
  va_list list;                                                                              \
  std::size_t count = 0;                                                                     \
  va_start(list, first);                                                                     \
  for (const char* word = first; word != nullptr; word = va_arg(list, const char*)) ++count; \
  va_end(list);                                                                              \
  auto** words = static_cast<char**>(::alloca((count + 1) * sizeof(char*)));                 \
  words[0] = const_cast<char*>(first);                                                       \
  va_start(list, first);                                                                     \
  for (std::size_t i = 1; i <= count; ++i) words[i] = va_arg(list, char*);

extern "C" SOFTHCA_INTERPOSE int softhca_execl(const char*, const char*, ...) asm("execl");
extern "C" int softhca_execl(const char* path, const char* first, ...) {
  GATHER_WORDS(first)
  va_end(list);
  return softhca_execve(path, words, ::environ);
}

extern "C" SOFTHCA_INTERPOSE int softhca_execlp(const char*, const char*, ...) asm("execlp");
extern "C" int softhca_execlp(const char* file, const char* first, ...) {
  GATHER_WORDS(first)
  va_end(list);
  return softhca_execvpe(file, words, ::environ);
}

extern "C" SOFTHCA_INTERPOSE int softhca_execle(const char*, const char*, ...) asm("execle");
extern "C" int softhca_execle(const char* path, const char* first, ...) {
  GATHER_WORDS(first)
  Words environment = va_arg(list, Words);
  va_end(list);
  return softhca_execve(path, words, environment);
}
