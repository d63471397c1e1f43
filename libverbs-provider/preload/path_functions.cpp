// SPDX-License-Identifier: Apache-2.0

// The functions of the C library that take a path, in all variants. Each calls the original with
// the redirected path.
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "libverbs-provider/preload/next.hpp"
#include "libverbs-provider/preload/redirect.hpp"

using softhca::preload::Next;
using softhca::preload::Redirected;

namespace {

bool takes_mode(int flags) { return (flags & (O_CREAT | O_TMPFILE)) != 0; }

}  // namespace

// `original` is the parameter with the path; the arguments follow, with `path`. A relative path
// starts at `directory`.
#define PATH_AT_FUNCTION(Result, name, parameters, ...)                     \
  extern "C" SOFTHCA_INTERPOSE Result softhca_##name parameters asm(#name); \
  extern "C" Result softhca_##name parameters {                             \
    static constinit Next<Result parameters> next{#name};                   \
    const Redirected redirected(directory, original);                       \
    const char* const path = redirected.path();                             \
    return next.get()(__VA_ARGS__);                                         \
  }

#define PATH_FUNCTION(Result, name, parameters, ...)                        \
  extern "C" SOFTHCA_INTERPOSE Result softhca_##name parameters asm(#name); \
  extern "C" Result softhca_##name parameters {                             \
    static constinit Next<Result parameters> next{#name};                   \
    const Redirected redirected(AT_FDCWD, original);                        \
    const char* const path = redirected.path();                             \
    return next.get()(__VA_ARGS__);                                         \
  }

#define OPEN_FUNCTION(name)                                                                 \
  extern "C" SOFTHCA_INTERPOSE int softhca_##name(const char*, int, ...) asm(#name);        \
  extern "C" int softhca_##name(const char* original, int flags, ...) {                     \
    static constinit Next<int(const char*, int, ...)> next{#name};                          \
    const Redirected redirected(AT_FDCWD, original);                                        \
    if (!takes_mode(flags)) return redirected.opened(next.get()(redirected.path(), flags)); \
    va_list list;                                                                           \
    va_start(list, flags);                                                                  \
    const mode_t mode = va_arg(list, mode_t);                                               \
    va_end(list);                                                                           \
    return next.get()(redirected.path(), flags, mode);                                      \
  }

#define OPENAT_FUNCTION(name)                                                             \
  extern "C" SOFTHCA_INTERPOSE int softhca_##name(int, const char*, int, ...) asm(#name); \
  extern "C" int softhca_##name(int directory, const char* original, int flags, ...) {    \
    static constinit Next<int(int, const char*, int, ...)> next{#name};                   \
    const Redirected redirected(directory, original);                                     \
    if (!takes_mode(flags))                                                               \
      return redirected.opened(next.get()(directory, redirected.path(), flags));          \
    va_list list;                                                                         \
    va_start(list, flags);                                                                \
    const mode_t mode = va_arg(list, mode_t);                                             \
    va_end(list);                                                                         \
    return next.get()(directory, redirected.path(), flags, mode);                         \
  }

OPEN_FUNCTION(open)
OPEN_FUNCTION(open64)
OPENAT_FUNCTION(openat)
OPENAT_FUNCTION(openat64)
PATH_FUNCTION(int, __open_2, (const char* original, int flags), path, flags)
PATH_FUNCTION(int, __open64_2, (const char* original, int flags), path, flags)
PATH_AT_FUNCTION(int, __openat_2, (int directory, const char* original, int flags), directory, path,
                 flags)
PATH_AT_FUNCTION(int, __openat64_2, (int directory, const char* original, int flags), directory,
                 path, flags)
PATH_FUNCTION(FILE*, fopen, (const char* original, const char* mode), path, mode)
PATH_FUNCTION(FILE*, fopen64, (const char* original, const char* mode), path, mode)

using Filter = int (*)(const dirent*);
using Order = int (*)(const dirent**, const dirent**);
PATH_FUNCTION(DIR*, opendir, (const char* original), path)
PATH_FUNCTION(int, chdir, (const char* original), path)
PATH_FUNCTION(int, scandir, (const char* original, dirent*** names, Filter filter, Order order),
              path, names, filter, order)
PATH_FUNCTION(int, scandir64, (const char* original, dirent*** names, Filter filter, Order order),
              path, names, filter, order)
PATH_AT_FUNCTION(int, scandirat,
                 (int directory, const char* original, dirent*** names, Filter filter, Order order),
                 directory, path, names, filter, order)
PATH_AT_FUNCTION(int, scandirat64,
                 (int directory, const char* original, dirent*** names, Filter filter, Order order),
                 directory, path, names, filter, order)

// The names passed to the callback are those in the tree.
using Visit = int (*)(const char*, const struct stat*, int);
using VisitFrom = int (*)(const char*, const struct stat*, int, struct FTW*);
PATH_FUNCTION(int, ftw, (const char* original, Visit visit, int files), path, visit, files)
PATH_FUNCTION(int, ftw64, (const char* original, Visit visit, int files), path, visit, files)
PATH_FUNCTION(int, nftw, (const char* original, VisitFrom visit, int files, int flags), path, visit,
              files, flags)
PATH_FUNCTION(int, nftw64, (const char* original, VisitFrom visit, int files, int flags), path,
              visit, files, flags)

namespace {

/// Passes functions to glob(), because the C library's glob() otherwise reads folders by its
/// internal functions. The structures and functions for large files are the same on all supported
/// machines.
void give_functions(glob_t& found) {
  found.gl_opendir = [](const char* path) { return static_cast<void*>(::opendir(path)); };
  found.gl_readdir = [](void* directory) { return ::readdir(static_cast<DIR*>(directory)); };
  found.gl_closedir = [](void* directory) { ::closedir(static_cast<DIR*>(directory)); };
  found.gl_stat = ::stat;
  found.gl_lstat = ::lstat;
}

using Complain = int (*)(const char*, int);
using Glob = int(const char*, int, Complain, glob_t*);

int glob_in_tree(Glob* glob, const char* pattern, int flags, Complain complain, glob_t* found) {
  if (pattern == nullptr || found == nullptr || (flags & GLOB_ALTDIRFUNC) != 0 ||
      std::strstr(pattern, "infiniband") == nullptr || softhca::preload::device_tree() == nullptr)
    return glob(pattern, flags, complain, found);
  give_functions(*found);
  const int result = glob(pattern, flags | GLOB_ALTDIRFUNC, complain, found);
  found->gl_flags &= ~GLOB_ALTDIRFUNC;
  return result;
}

}  // namespace

#define GLOB_FUNCTION(name)                                                                        \
  extern "C" SOFTHCA_INTERPOSE int softhca_##name(const char*, int, Complain, glob_t*) asm(#name); \
  extern "C" int softhca_##name(const char* pattern, int flags, Complain complain,                 \
                                glob_t* found) {                                                   \
    static constinit Next<Glob> next{#name};                                                       \
    return glob_in_tree(next.get(), pattern, flags, complain, found);                              \
  }

GLOB_FUNCTION(glob)
GLOB_FUNCTION(glob64)

PATH_FUNCTION(int, stat, (const char* original, struct stat* found), path, found)
PATH_FUNCTION(int, stat64, (const char* original, struct stat64* found), path, found)
PATH_FUNCTION(int, lstat, (const char* original, struct stat* found), path, found)
PATH_FUNCTION(int, lstat64, (const char* original, struct stat64* found), path, found)
PATH_AT_FUNCTION(int, fstatat, (int directory, const char* original, struct stat* found, int flags),
                 directory, path, found, flags)
PATH_AT_FUNCTION(int, fstatat64,
                 (int directory, const char* original, struct stat64* found, int flags), directory,
                 path, found, flags)
PATH_AT_FUNCTION(int, statx,
                 (int directory, const char* original, int flags, unsigned mask,
                  struct statx* found),
                 directory, path, flags, mask, found)
// As above, for programs linked before glibc 2.33.
PATH_FUNCTION(int, __xstat, (int version, const char* original, struct stat* found), version, path,
              found)
PATH_FUNCTION(int, __xstat64, (int version, const char* original, struct stat64* found), version,
              path, found)
PATH_FUNCTION(int, __lxstat, (int version, const char* original, struct stat* found), version, path,
              found)
PATH_FUNCTION(int, __lxstat64, (int version, const char* original, struct stat64* found), version,
              path, found)
PATH_AT_FUNCTION(int, __fxstatat,
                 (int version, int directory, const char* original, struct stat* found, int flags),
                 version, directory, path, found, flags)
PATH_AT_FUNCTION(int, __fxstatat64,
                 (int version, int directory, const char* original, struct stat64* found,
                  int flags),
                 version, directory, path, found, flags)

PATH_FUNCTION(int, access, (const char* original, int mode), path, mode)
PATH_FUNCTION(int, euidaccess, (const char* original, int mode), path, mode)
PATH_FUNCTION(int, eaccess, (const char* original, int mode), path, mode)
PATH_AT_FUNCTION(int, faccessat, (int directory, const char* original, int mode, int flags),
                 directory, path, mode, flags)

PATH_FUNCTION(ssize_t, getxattr, (const char* original, const char* name, void* value, size_t size),
              path, name, value, size)
PATH_FUNCTION(ssize_t, lgetxattr,
              (const char* original, const char* name, void* value, size_t size), path, name, value,
              size)
PATH_FUNCTION(ssize_t, listxattr, (const char* original, char* names, size_t size), path, names,
              size)
PATH_FUNCTION(ssize_t, llistxattr, (const char* original, char* names, size_t size), path, names,
              size)

PATH_FUNCTION(ssize_t, readlink, (const char* original, char* target, size_t size), path, target,
              size)
PATH_AT_FUNCTION(ssize_t, readlinkat,
                 (int directory, const char* original, char* target, size_t size), directory, path,
                 target, size)
PATH_FUNCTION(ssize_t, __readlink_chk,
              (const char* original, char* target, size_t size, size_t room), path, target, size,
              room)
PATH_AT_FUNCTION(ssize_t, __readlinkat_chk,
                 (int directory, const char* original, char* target, size_t size, size_t room),
                 directory, path, target, size, room)

// These return the path below /sys, as programs parse it: /sys/devices/pci0000:3b/0000:3b:00.0.
#define RESOLVING_FUNCTION(name, parameters, ...)                          \
  extern "C" SOFTHCA_INTERPOSE char* softhca_##name parameters asm(#name); \
  extern "C" char* softhca_##name parameters {                             \
    static constinit Next<char * parameters> next{#name};                  \
    const Redirected redirected(AT_FDCWD, original);                       \
    const char* const path = redirected.path();                            \
    return redirected.in_sys(next.get()(__VA_ARGS__));                     \
  }

RESOLVING_FUNCTION(realpath, (const char* original, char* resolved), path, resolved)
RESOLVING_FUNCTION(__realpath_chk, (const char* original, char* resolved, size_t room), path,
                   resolved, room)
RESOLVING_FUNCTION(canonicalize_file_name, (const char* original), path)
