/* Syncs that take as many milliseconds as the file named by SLOW_SYNC says, and are counted. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void slow(void) {
  char text[16] = {0};
  int file = open(getenv("SLOW_SYNC"), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  long ms = read(file, text, sizeof text - 1) > 0 ? atol(text) : 0;
  close(file);
  file = open(getenv("SLOW_SYNC_COUNT"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file >= 0) {
    if (write(file, ".", 1) != 1) ms = 0;
    close(file);
  }
  struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&pause, NULL);
}

static int synced(const char *name, int file) {
  int (*real)(int);
  *(void **)&real = dlsym(RTLD_NEXT, name);
  slow();
  return real(file);
}

int fsync(int file) { return synced("fsync", file); }
int fdatasync(int file) { return synced("fdatasync", file); }
