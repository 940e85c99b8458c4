/* Loaded before the C library into every process of the application: a slow disk, a wrong clock.

   The file WALLAROO_SHIM has two numbers of 64 bits: nanoseconds that the wall clock is ahead, and
   nanoseconds that each sync of a file takes longer. Waits until a time of the wall clock last as
   long as they would if the clock of the machine had been set. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
#define OF_WALL_CLOCK 1000000000LL /* seconds: no machine has been up for so long */

struct told { volatile int64_t ahead_ns, sync_ns; };
static struct told nothing;
static struct told *told = &nothing;

__attribute__((constructor)) static void open_file(void) {
    const char *path = getenv("WALLAROO_SHIM");
    int file = path == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    void *mapped = mmap(NULL, sizeof(struct told), PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) told = mapped;
    close(file);
}

static void move(struct timespec *at, int64_t by_ns) {
    int64_t ns = at->tv_nsec + by_ns % SECOND;
    at->tv_sec += by_ns / SECOND + (ns >= SECOND) - (ns < 0);
    at->tv_nsec = ns >= SECOND ? ns - SECOND : ns < 0 ? ns + SECOND : ns;
}

/* The time of the machine for a time of the clock that the process sees. */
static const struct timespec *of_machine(const struct timespec *at, struct timespec *room) {
    if (at == NULL || at->tv_sec < OF_WALL_CLOCK || told->ahead_ns == 0) return at;
    *room = *at;
    move(room, -told->ahead_ns);
    return room;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (real == NULL) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, at);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI))
        move(at, told->ahead_ns);
    return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at != NULL) *at = now.tv_sec;
    return now.tv_sec;
}

int pthread_cond_timedwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    struct timespec room;
    if (real == NULL) { /* on x86-64, the first one by this name has another condition */
        void *found = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
        real = found != NULL ? found : dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    }
    return real(condition, mutex, of_machine(until, &room));
}

int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex,
                           clockid_t clock, const struct timespec *restrict until) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
    struct timespec room;
    if (real == NULL) real = dlsym(RTLD_NEXT, "pthread_cond_clockwait");
    return real(condition, mutex, clock, of_machine(until, &room));
}

int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict until) {
    static int (*real)(pthread_mutex_t *, const struct timespec *);
    struct timespec room;
    if (real == NULL) real = dlsym(RTLD_NEXT, "pthread_mutex_timedlock");
    return real(mutex, of_machine(until, &room));
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until) {
    static int (*real)(sem_t *, const struct timespec *);
    struct timespec room;
    if (real == NULL) real = dlsym(RTLD_NEXT, "sem_timedwait");
    return real(semaphore, of_machine(until, &room));
}

int sem_clockwait(sem_t *restrict semaphore, clockid_t clock, const struct timespec *restrict until) {
    static int (*real)(sem_t *, clockid_t, const struct timespec *);
    struct timespec room;
    if (real == NULL) real = dlsym(RTLD_NEXT, "sem_clockwait");
    return real(semaphore, clock, of_machine(until, &room));
}

/* gRPC waits with the system call itself. */
long syscall(long number, ...) {
    static long (*real)(long, ...);
    struct timespec room;
    long given[6];
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++) given[i] = va_arg(rest, long);
    va_end(rest);
    if (real == NULL) real = dlsym(RTLD_NEXT, "syscall");
    if (number == SYS_futex && (given[1] & FUTEX_CLOCK_REALTIME))
        given[3] = (long)of_machine((const struct timespec *)given[3], &room);
    return real(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

static void take_longer(void) {
    int64_t ns = told->sync_ns;
    struct timespec rest = {ns / SECOND, ns % SECOND};
    while (ns > 0 && nanosleep(&rest, &rest) != 0 && errno == EINTR) {}
}

int fsync(int file) {
    static int (*real)(int);
    if (real == NULL) real = dlsym(RTLD_NEXT, "fsync");
    take_longer();
    return real(file);
}

int fdatasync(int file) {
    static int (*real)(int);
    if (real == NULL) real = dlsym(RTLD_NEXT, "fdatasync");
    take_longer();
    return real(file);
}
