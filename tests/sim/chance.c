// The system's random numbers for simulations. With ZOOLET_SIM_SEED in the environment they follow from
// that number, so that a run can be repeated; without it they are the system's.
//
// The standard library, the crate `getrandom` and all that take their seeds from them call this
// function. The generator is splitmix64.

#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t state;
static int is_seeded = -1;

static uint64_t next(void) {
    uint64_t mixed = state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

ssize_t getrandom(void *buffer, size_t length, unsigned int flags) {
    if (is_seeded < 0) {
        const char *seed = getenv("ZOOLET_SIM_SEED");
        is_seeded = seed != NULL;
        state = seed == NULL ? 0 : strtoull(seed, NULL, 10);
    }
    if (!is_seeded) {
        return syscall(SYS_getrandom, buffer, length, flags);
    }
    unsigned char *to = buffer;
    for (size_t done = 0; done < length;) {
        uint64_t number = next();
        size_t part = length - done < sizeof number ? length - done : sizeof number;
        memcpy(to + done, &number, part);
        done += part;
    }
    return (ssize_t)length;
}
