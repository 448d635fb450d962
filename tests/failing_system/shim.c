/* Calls of the C library that fail, stop half way or end the process, on files below one directory.
 *
 * Loaded by LD_PRELOAD. fault_arm() says which calls count, and which of them, from 1 on, meets the fault; until then,
 * and for all other files, calls pass through. fault_seen() tells how many of a kind there were, fault_met() how many
 * met the fault. Number 0 counts only. Of one process: a child that is forked before it arms has its own.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* In the order of failing_system/faults.py. */
enum { OPEN, CREATE, READ, WRITE, FSYNC, LINK, RENAME, UNLINK, MKDIR, LIST };
enum { ONCE, ON, KILL_BEFORE, KILL_AFTER, HALF, TORN };

static char root[PATH_MAX];
static size_t root_length;
static atomic_int armed, wanted, mode, error_number;
static atomic_long nth, seen[LIST + 1], met;

void fault_arm(const char *below, int kind, int how, int error, long number) {
    armed = 0;
    root_length = strlen(below);
    memcpy(root, below, root_length + 1);
    wanted = kind;
    mode = how;
    error_number = error;
    nth = number;
    armed = 1;
}

void fault_disarm(void) { armed = 0; }
long fault_seen(int kind) { return seen[kind]; }
long fault_met(void) { return met; }

static int is_below(const char *path) { return path && !strncmp(path, root, root_length); }

static int is_file_below(int file) {
    char name[64], path[PATH_MAX];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    ssize_t length = readlink(name, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_below(path);
}

/* Count a call; whether it is one that the fault is for. */
static int is_hit(int kind) {
    long number = ++seen[kind];
    return wanted == kind && (mode == ON ? number >= nth : number == nth);
}

static void die(void) { kill(getpid(), SIGKILL); }

#define NEXT(name) \
    static __typeof__(&name) next; \
    if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* `call` is made or not, as the fault wants; `refused` is what a failing one returns. */
#define GUARDED(kind, counts, call, refused) \
    do { \
        int before = errno; \
        int hit = armed && (counts) && is_hit(kind); \
        errno = before; \
        if (!hit) return (call); \
        met++; \
        if (mode == KILL_BEFORE) die(); \
        if (mode == KILL_AFTER) { __typeof__(call) done = (call); die(); return done; } \
        errno = error_number; \
        return (refused); \
    } while (0)

#define OPENING(name, parameters, arguments) \
    int name parameters { \
        NEXT(name); \
        mode_t bits = 0; \
        if (flags & (O_CREAT | O_TMPFILE)) { \
            va_list rest; \
            va_start(rest, flags); \
            bits = va_arg(rest, mode_t); \
            va_end(rest); \
        } \
        int kind = flags & (O_CREAT | O_WRONLY | O_RDWR) ? CREATE : OPEN; \
        GUARDED(kind, is_below(path), next arguments, -1); \
    }

OPENING(open, (const char *path, int flags, ...), (path, flags, bits))
OPENING(open64, (const char *path, int flags, ...), (path, flags, bits))
OPENING(openat, (int at, const char *path, int flags, ...), (at, path, flags, bits))
OPENING(openat64, (int at, const char *path, int flags, ...), (at, path, flags, bits))

DIR *opendir(const char *path) {
    NEXT(opendir);
    GUARDED(LIST, is_below(path), next(path), NULL);
}

ssize_t read(int file, void *to, size_t size) {
    NEXT(read);
    GUARDED(READ, is_file_below(file), next(file, to, size), -1);
}

ssize_t pread(int file, void *to, size_t size, off_t at) {
    NEXT(pread);
    GUARDED(READ, is_file_below(file), next(file, to, size, at), -1);
}

ssize_t pread64(int file, void *to, size_t size, off64_t at) {
    NEXT(pread64);
    GUARDED(READ, is_file_below(file), next(file, to, size, at), -1);
}

/* Of half a write (HALF, TORN) the first half reaches the file. */
#define WRITING(half, whole) \
    do { \
        if (armed && wanted == WRITE && (mode == HALF || mode == TORN) && size > 1 && is_file_below(file)) { \
            if (!is_hit(WRITE)) return (whole); \
            met++; \
            ssize_t done = (half); \
            if (mode == TORN) die(); \
            return done; \
        } \
        GUARDED(WRITE, is_file_below(file), (whole), -1); \
    } while (0)

ssize_t write(int file, const void *from, size_t size) {
    NEXT(write);
    WRITING(next(file, from, size / 2), next(file, from, size));
}

ssize_t pwrite(int file, const void *from, size_t size, off_t at) {
    NEXT(pwrite);
    WRITING(next(file, from, size / 2, at), next(file, from, size, at));
}

ssize_t pwrite64(int file, const void *from, size_t size, off64_t at) {
    NEXT(pwrite64);
    WRITING(next(file, from, size / 2, at), next(file, from, size, at));
}

ssize_t writev(int file, const struct iovec *parts, int count) {
    NEXT(writev);
    GUARDED(WRITE, is_file_below(file), next(file, parts, count), -1);
}

int fsync(int file) {
    NEXT(fsync);
    GUARDED(FSYNC, is_file_below(file), next(file), -1);
}

int fdatasync(int file) {
    NEXT(fdatasync);
    GUARDED(FSYNC, is_file_below(file), next(file), -1);
}

int link(const char *from, const char *to) {
    NEXT(link);
    GUARDED(LINK, is_below(to), next(from, to), -1);
}

int linkat(int from_at, const char *from, int to_at, const char *to, int flags) {
    NEXT(linkat);
    GUARDED(LINK, is_below(to), next(from_at, from, to_at, to, flags), -1);
}

int rename(const char *from, const char *to) {
    NEXT(rename);
    GUARDED(RENAME, is_below(to), next(from, to), -1);
}

int renameat(int from_at, const char *from, int to_at, const char *to) {
    NEXT(renameat);
    GUARDED(RENAME, is_below(to), next(from_at, from, to_at, to), -1);
}

int unlink(const char *path) {
    NEXT(unlink);
    GUARDED(UNLINK, is_below(path), next(path), -1);
}

int unlinkat(int at, const char *path, int flags) {
    NEXT(unlinkat);
    GUARDED(UNLINK, is_below(path), next(at, path, flags), -1);
}

int mkdir(const char *path, mode_t bits) {
    NEXT(mkdir);
    GUARDED(MKDIR, is_below(path), next(path, bits), -1);
}
