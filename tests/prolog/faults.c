/* Preloaded into what runs on a node: a file system that is slow, and a system that has no process left.
 *
 * Each call on a path that begins with $FAULT_PATH takes $FAULT_S seconds longer; with $FAULT_FORK fork fails.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void slow(const char *path) {
    const char *prefix = getenv("FAULT_PATH"), *seconds = getenv("FAULT_S");
    if (!prefix || !seconds || !path || strncmp(path, prefix, strlen(prefix))) return;
    double pause_s = atof(seconds);
    struct timespec pause = {(time_t)pause_s, (long)((pause_s - (double)(time_t)pause_s) * 1e9)};
    nanosleep(&pause, NULL);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define MODE(last) va_list rest; va_start(rest, last); mode_t mode = va_arg(rest, mode_t); va_end(rest)

int open(const char *path, int flags, ...) { MODE(flags); slow(path); return NEXT(open)(path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags); slow(path); return NEXT(open64)(path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags); slow(path); return NEXT(openat)(at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags); slow(path); return NEXT(openat64)(at, path, flags, mode); }
DIR *opendir(const char *path) { slow(path); return NEXT(opendir)(path); }
int mkdir(const char *path, mode_t mode) { slow(path); return NEXT(mkdir)(path, mode); }
int unlink(const char *path) { slow(path); return NEXT(unlink)(path); }
int unlinkat(int at, const char *path, int flags) { slow(path); return NEXT(unlinkat)(at, path, flags); }
int rename(const char *from, const char *to) { slow(from); return NEXT(rename)(from, to); }
int stat(const char *path, struct stat *into) { slow(path); return NEXT(stat)(path, into); }
int stat64(const char *path, struct stat64 *into) { slow(path); return NEXT(stat64)(path, into); }

static int none(void) { errno = EAGAIN; return -1; }
pid_t fork(void) { return getenv("FAULT_FORK") ? none() : NEXT(fork)(); }
pid_t vfork(void) { return fork(); }
