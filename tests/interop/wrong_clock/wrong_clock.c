/* A wall clock that is wrong by as many milliseconds as the file WRONG_CLOCK_FILE says; no file, no
 * error. The file is read at each look at the clock, so the clock can be set while the program runs.
 * The monotonic clock is left as it is. Preloaded into a server (tests/tests/runbook/clock.rs). */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long offset_ms(void)
{
	const char *name = getenv("WRONG_CLOCK_FILE");
	FILE *file = name ? fopen(name, "r") : NULL;
	long long ms = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%lld", &ms) != 1)
		ms = 0;
	fclose(file);
	return ms;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	/* The call itself: looking up the next function of this name may look at the clock. */
	int result = (int)syscall(SYS_clock_gettime, clock, now);

	if (result == 0 && clock == CLOCK_REALTIME) {
		long long ms = offset_ms();
		long long ns = now->tv_nsec + ms % 1000 * 1000000;

		now->tv_sec += ms / 1000 + (ns < 0 ? -1 : ns / 1000000000);
		now->tv_nsec = ns < 0 ? ns + 1000000000 : ns % 1000000000;
	}
	return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec exact;
	int result = clock_gettime(CLOCK_REALTIME, &exact);

	(void)zone;
	now->tv_sec = exact.tv_sec;
	now->tv_usec = exact.tv_nsec / 1000;
	return result;
}

time_t time(time_t *now)
{
	struct timespec exact;

	clock_gettime(CLOCK_REALTIME, &exact);
	if (now)
		*now = exact.tv_sec;
	return exact.tv_sec;
}
