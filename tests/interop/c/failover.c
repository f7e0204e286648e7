/* The server in use is lost, then the leader: the session, its ephemerals, its watches and what was
 * acknowledged stay. */
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "parts.h"

/* A read may meet the moment of the loss; it can be asked again. */
static int number_of_children(zhandle_t *zh, const char *path) {
    struct Stat stat;
    int code = ZCONNECTIONLOSS;
    for (int i = 0; i < 600 && (code == ZCONNECTIONLOSS || code == ZOPERATIONTIMEOUT); i++) {
        code = zoo_exists(zh, path, 0, &stat);
        sleep_ms(20);
    }
    CHECK_CODE(code, ZOK);
    return stat.numChildren;
}

/* Creates /cf/NAME-FROM … NAME-(TO-1), each until it is acknowledged. */
static void write_many(zhandle_t *zh, int from, int to) {
    for (int i = from; i < to; i++) {
        char path[64];
        int code = ZCONNECTIONLOSS;
        bool lost = false;
        snprintf(path, sizeof path, "/cf/n-%d", i);
        for (int attempt = 0; attempt < 600; attempt++) {
            code = zoo_create(zh, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0);
            if (code != ZCONNECTIONLOSS && code != ZOPERATIONTIMEOUT) {
                break;
            }
            lost = true;
            sleep_ms(20);
        }
        /* Only a request whose answer was lost may turn out to have been done. */
        CHECK(code == ZOK || (lost && code == ZNODEEXISTS));
    }
}

static void lose(struct session *session, bool leader, int *written) {
    struct events changed;
    struct session changer;
    char data[8];
    int length = sizeof data;
    int connections = session->connections;
    int64_t id = zoo_client_id(session->zh)->client_id;
    events_init(&changed);
    CHECK_CODE(zoo_wget(session->zh, "/cf/mine", note_event, &changed, data, &length, NULL), ZOK);
    write_many(session->zh, *written, *written + 50);
    lose_server(leader ? NULL : session);
    if (!leader) {
        session_await(session, connections + 1);
    }
    write_many(session->zh, *written + 50, *written + 100);
    *written += 100;
    CHECK_CODE(number_of_children(session->zh, "/cf"), 1 + *written);
    CHECK(zoo_client_id(session->zh)->client_id == id);
    expect_no_event(&changed);

    /* The watch went along to the new server. */
    session_open(&changer);
    CHECK_CODE(zoo_set(changer.zh, "/cf/mine", leader ? "2" : "1", 1, -1), ZOK);
    expect_event(&changed, ZOO_CHANGED_EVENT, "/cf/mine");
    session_close(&changer);
    bring_back();
}

void failover(void) {
    struct session session;
    struct session last;
    struct Stat stat;
    int written = 0;
    session_open(&session);
    CHECK_CODE(zoo_create(session.zh, "/cf", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0), ZOK);
    CHECK_CODE(zoo_create2(session.zh, "/cf/mine", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL,
                           0, &stat), ZOK);
    lose(&session, false, &written);
    lose(&session, true, &written);
    CHECK_CODE(zoo_exists(session.zh, "/cf/mine", 0, &stat), ZOK);
    CHECK(stat.ephemeralOwner == zoo_client_id(session.zh)->client_id);
    CHECK_CODE(stat.version, 2);
    session_close(&session);

    session_open(&last);
    session_sync(&last, "/cf");
    CHECK_CODE(number_of_children(last.zh, "/cf"), written);
    for (int i = 0; i < written; i++) {
        char path[64];
        snprintf(path, sizeof path, "/cf/n-%d", i);
        CHECK_CODE(zoo_delete(last.zh, path, 0), ZOK);
    }
    CHECK_CODE(zoo_delete(last.zh, "/cf", -1), ZOK);
    session_close(&last);
}
