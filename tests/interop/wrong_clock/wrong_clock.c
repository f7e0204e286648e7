/* A wall clock that is wrong by as many milliseconds as the file WRONG_CLOCK_FILE says; no file, no
 * error. The file is read at each look at the clock, so the clock can be set while the program runs.
 * Preloaded into a server (tests/tests/runbook/clock.rs).
 *
 * The file WRONG_RATE_FILE makes all clocks go wrong: "FROM_NS SHIFT_NS PPM" adds SHIFT_NS and, for each
 * second since FROM_NS of the true monotonic clock, PPM microseconds. It is read again each 10 ms of true
 * time, and time never goes back by it. Without this variable the monotonic clock is left as it is. What
 * the kernel itself counts, such as the end of a wait, is right. */
#define _GNU_SOURCE
#include <stdatomic.h>
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

static long long true_ns(clockid_t clock)
{
	struct timespec now = {0};

	/* The call itself: looking up the next function of this name may look at the clock. */
	syscall(SYS_clock_gettime, clock, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* How far the clocks have gone wrong by their rate, at a time of the true monotonic clock. */
static long long gone_wrong_ns(long long at_ns)
{
	static atomic_llong read_ns, from_ns, shift_ns, ppm;
	long long last = atomic_load(&read_ns);

	if (at_ns - last > 10000000 && atomic_compare_exchange_strong(&read_ns, &last, at_ns)) {
		const char *name = getenv("WRONG_RATE_FILE");
		FILE *file = name ? fopen(name, "r") : NULL;
		long long from, shift, rate;

		if (file && fscanf(file, "%lld %lld %lld", &from, &shift, &rate) == 3) {
			atomic_store(&from_ns, from);
			atomic_store(&shift_ns, shift);
			atomic_store(&ppm, rate);
		}
		if (file)
			fclose(file);
	}
	return atomic_load(&shift_ns) +
	       (at_ns - atomic_load(&from_ns)) / 1000 * atomic_load(&ppm) / 1000;
}

/* The wrong monotonic clock, which does not go back. */
static void set_monotonic(struct timespec *now)
{
	static atomic_llong newest;
	long long at = true_ns(CLOCK_MONOTONIC);
	long long wrong = at + gone_wrong_ns(at), seen = atomic_load(&newest);

	while (wrong > seen && !atomic_compare_exchange_weak(&newest, &seen, wrong))
		;
	wrong = wrong > seen ? wrong : seen;
	now->tv_sec = wrong / 1000000000;
	now->tv_nsec = wrong % 1000000000;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	/* The call itself: looking up the next function of this name may look at the clock. */
	int result = (int)syscall(SYS_clock_gettime, clock, now);
	int has_rate = getenv("WRONG_RATE_FILE") != NULL;

	if (result == 0 && clock == CLOCK_MONOTONIC && has_rate)
		set_monotonic(now);
	if (result == 0 && clock == CLOCK_REALTIME) {
		long long ns = now->tv_sec * 1000000000LL + now->tv_nsec + offset_ms() * 1000000LL;

		if (has_rate)
			ns += gone_wrong_ns(true_ns(CLOCK_MONOTONIC));
		now->tv_sec = ns / 1000000000;
		now->tv_nsec = ns % 1000000000;
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
