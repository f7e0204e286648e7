/* multi: all of it or nothing, with a result for every operation. */
#include <string.h>

#include "harness.h"
#include "parts.h"

static void all_of_it(zhandle_t *zh) {
    zoo_op_t ops[5];
    zoo_op_result_t results[5];
    char first[64];
    char second[64];
    struct Stat stat;
    memset(results, 0, sizeof results);
    zoo_create_op_init(&ops[0], "/ct", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, first, sizeof first);
    zoo_create_op_init(&ops[1], "/ct/s-", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL,
                       second, sizeof second);
    zoo_set_op_init(&ops[2], "/ct", "data", 4, 0, &stat);
    zoo_check_op_init(&ops[3], "/ct", 1);
    zoo_delete_op_init(&ops[4], "/ct/s-0000000000", 0);
    CHECK_CODE(zoo_multi(zh, 5, ops, results), ZOK);
    for (int i = 0; i < 5; i++) {
        CHECK_CODE(results[i].err, ZOK);
    }
    CHECK(strcmp(second, "/ct/s-0000000000") == 0);
    CHECK(stat.version == 1 && stat.dataLength == 4);
    CHECK_CODE(zoo_exists(zh, "/ct", 0, &stat), ZOK);
    CHECK(stat.numChildren == 0 && stat.czxid == stat.mzxid && stat.pzxid == stat.czxid);
}

static void nothing_of_it(zhandle_t *zh) {
    zoo_op_t ops[3];
    zoo_op_result_t results[3];
    char path[64];
    struct Stat stat;
    memset(results, 0, sizeof results);
    zoo_create_op_init(&ops[0], "/ct/a", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, path, sizeof path);
    zoo_check_op_init(&ops[1], "/ct", 7);
    zoo_delete_op_init(&ops[2], "/ct", -1);
    CHECK_CODE(zoo_multi(zh, 3, ops, results), ZBADVERSION);
    CHECK_CODE(results[0].err, ZOK);
    CHECK_CODE(results[1].err, ZBADVERSION);
    CHECK_CODE(results[2].err, ZRUNTIMEINCONSISTENCY);
    CHECK_CODE(zoo_exists(zh, "/ct/a", 0, &stat), ZNONODE);
    CHECK_CODE(zoo_exists(zh, "/ct", 0, &stat), ZOK);
    CHECK_CODE(stat.version, 1);
}

void transactions(void) {
    struct session session;
    session_open(&session);
    all_of_it(session.zh);
    nothing_of_it(session.zh);
    CHECK_CODE(zoo_delete(session.zh, "/ct", -1), ZOK);
    session_close(&session);
}
