#pragma once
#ifdef __linux__
/* Linux calls that Swift's Glibc module lacks. Headers only: nothing is linked. */

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <wchar.h>

/* glibc declares these under _GNU_SOURCE only, which the importer does not define. */
extern int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
extern int fallocate(int fd, int mode, off_t offset, off_t length);
extern int pipe2(int descriptors[2], int flags);
extern int posix_spawn_file_actions_addchdir_np(posix_spawn_file_actions_t *actions, const char *path);
extern int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *actions, int from);
extern int syncfs(int fd);
extern long syscall(long number, ...);
extern int wcwidth(wchar_t character);

/* Writes what was counted for the coverage, where the program is built with that; otherwise done at its exit. */
extern int __llvm_profile_write_file(void) __attribute__((weak));
static inline void cepoll_write_profile(void) {
    if (__llvm_profile_write_file) __llvm_profile_write_file();
}

/* Returns a descriptor that becomes readable when the process ends. */
static inline int cepoll_pidfd_open(int pid) {
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* The number of bytes written to a socket that the peer has not acknowledged yet; 0 if unknown. */
static inline int cepoll_unacknowledged_bytes(int fd) {
    int count = 0;
    return ioctl(fd, TIOCOUTQ, &count) == 0 ? count : 0;
}

/* Like rename(2), but fails with EEXIST if the new name is taken, or EINVAL if the file system does not support that. */
static inline int cepoll_rename_without_replacing(const char *from, const char *to) {
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 1u /* RENAME_NOREPLACE */);
}

/* Gives an open file without a name its first one; fails with EEXIST if that is taken. Linux before 6.10 wants a capability
   for the first way. */
static inline int cepoll_name_file(int fd, const char *path) {
    char own[64];
    if (linkat(fd, "", AT_FDCWD, path, 0x1000 /* AT_EMPTY_PATH */) == 0) return 0;
    if (errno == EEXIST) return -1;
    snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, own, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
}

/* O_TMPFILE, which is declared under _GNU_SOURCE only: opens a file without a name in a directory. */
static const int cepoll_unnamed_file = 020000000 | O_DIRECTORY;

/* Opens a file, or a link with O_NOFOLLOW, only to ask what it is: closing it drops no locks. O_PATH is declared under
   _GNU_SOURCE only. */
static inline int cepoll_open_path(const char *path, int flags) {
#ifdef O_PATH
    return open(path, flags | O_CLOEXEC | O_PATH);
#else
    return open(path, flags | O_CLOEXEC | 010000000);
#endif
}

/* The type, as in statfs(2), of the file system of a descriptor; 0 if unknown. */
static inline unsigned long cepoll_file_system_type(int fd) {
    struct statfs information;
    return fstatfs(fd, &information) == 0 ? (unsigned long)information.f_type : 0;
}

/* Reserves space for a file, without changing its length. */
static inline int cepoll_allocate(int fd, long long length) {
    return fallocate(fd, 1 /* FALLOC_FL_KEEP_SIZE */, 0, (off_t)length);
}

/* When an open file was made, in nanoseconds since 1970; 0 if unknown. struct statx is declared under _GNU_SOURCE only. */
static inline long long cepoll_birth_time(int fd) {
#ifdef SYS_statx
    unsigned char facts[256];
    unsigned mask;
    long long seconds;
    unsigned nanoseconds;
    if (syscall(SYS_statx, fd, "", 0x1000 /* AT_EMPTY_PATH */, 0x800u /* STATX_BTIME */, facts) != 0) return 0;
    memcpy(&mask, facts, sizeof mask);
    memcpy(&seconds, facts + 80, sizeof seconds);
    memcpy(&nanoseconds, facts + 88, sizeof nanoseconds);
    return mask & 0x800u ? seconds * 1000000000ll + nanoseconds : 0;
#else
    return 0;
#endif
}

/* Sets an extended attribute of an open file. */
static inline int cepoll_set_attribute(int fd, const char *name, const void *value, size_t size) {
    return fsetxattr(fd, name, value, size, 0);
}

/* Reads an extended attribute of a file; returns its length, or -1. */
static inline long cepoll_get_attribute(const char *path, const char *name, void *value, size_t size) {
    return getxattr(path, name, value, size);
}

/* The number of allocated bytes in all arenas. Memory in per-thread caches counts as allocated. */
static inline size_t cepoll_bytes_in_use(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}
#endif
