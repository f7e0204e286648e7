/* The C client of ZooKeeper (libzookeeper-mt) on an ensemble of three. */
#include <stdio.h>

#include "harness.h"
#include "parts.h"

int main(void) {
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    znodes();
    watches();
    transactions();
    access_rights();
    locks();
    failover();
    printf("OK %d checks\n", checks_done());
    return 0;
}
