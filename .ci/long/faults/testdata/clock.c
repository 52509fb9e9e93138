// Lets the wall clock of a process be set: preloaded, it adds to it the seconds in the file that
// CLOCK names. The monotonic clock runs on, as when a machine's clock is set. (libfaketime does not
// start a Redis with jemalloc.)
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile long *step;

__attribute__((constructor)) static void begin(void) {
	int file = open(getenv("CLOCK"), O_RDONLY | O_CLOEXEC);
	step = mmap(0, sizeof *step, PROT_READ, MAP_SHARED, file, 0);
}

int clock_gettime(clockid_t clock, struct timespec *t) {
	int result = syscall(SYS_clock_gettime, clock, t);
	if (clock == CLOCK_REALTIME && step)
		t->tv_sec += *step;
	return result;
}

int gettimeofday(struct timeval *t, void *zone) {
	struct timespec now;
	int result = clock_gettime(CLOCK_REALTIME, &now);
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return result;
}

time_t time(time_t *at) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (at)
		*at = now.tv_sec;
	return now.tv_sec;
}
