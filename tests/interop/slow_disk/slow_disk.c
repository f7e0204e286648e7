/* A disk whose syncs take as long as the file SLOW_DISK_FILE says, in milliseconds; no file, no
 * wait. Preloaded into a server (see tests/src/slow_disk.rs). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void wait_as_configured(void)
{
	const char *name = getenv("SLOW_DISK_FILE");
	FILE *file = name ? fopen(name, "r") : NULL;
	unsigned int ms = 0;

	if (!file)
		return;
	if (fscanf(file, "%u", &ms) != 1)
		ms = 0;
	fclose(file);
	usleep(ms * 1000);
}

int fsync(int fd)
{
	int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");

	wait_as_configured();
	return next(fd);
}

int fdatasync(int fd)
{
	int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");

	wait_as_configured();
	return next(fd);
}
