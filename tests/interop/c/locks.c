/* A fair lock of ephemeral sequential znodes, each holder in a session of its own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "parts.h"

#define CONTENDERS 6
#define ROUNDS 10

static int holders;
static int turns;
static int last_number = -1;

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The contender right before `own`; false when there is none. */
static bool predecessor(zhandle_t *zh, const char *own, char *before, size_t size) {
    struct String_vector names;
    int place = -1;
    CHECK_CODE(zoo_get_children(zh, "/cl", 0, &names), ZOK);
    qsort(names.data, (size_t)names.count, sizeof names.data[0], by_text);
    for (int i = 0; i < names.count; i++) {
        if (strcmp(names.data[i], own + strlen("/cl/")) == 0) {
            place = i;
        }
    }
    CHECK(place >= 0);
    if (place > 0) {
        snprintf(before, size, "/cl/%s", names.data[place - 1]);
    }
    deallocate_String_vector(&names);
    return place > 0;
}

static void acquire(zhandle_t *zh, char *own, size_t size) {
    char before[64];
    CHECK_CODE(zoo_create(zh, "/cl/lock-", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL,
                          own, (int)size), ZOK);
    while (predecessor(zh, own, before, sizeof before)) {
        struct events events;
        struct Stat stat;
        events_init(&events);
        if (zoo_wexists(zh, before, note_event, &events, &stat) == ZOK) {
            expect_event(&events, ZOO_DELETED_EVENT, before);
        } else {
            /* It went in the meantime, and the watch waits for a znode that never comes again. */
            CHECK_CODE(zoo_remove_watches(zh, before, ZWATCHTYPE_DATA, note_event, &events, 1), ZOK);
        }
    }
}

static void *contend(void *unused) {
    struct session session;
    (void)unused;
    session_open(&session);
    for (int round = 0; round < ROUNDS; round++) {
        char own[64];
        acquire(session.zh, own, sizeof own);
        /* No mutex guards these: the lock does. */
        holders++;
        CHECK_CODE(holders, 1);
        CHECK(atoi(own + strlen("/cl/lock-")) > last_number);
        last_number = atoi(own + strlen("/cl/lock-"));
        turns++;
        sleep_ms(2);
        CHECK_CODE(holders, 1);
        holders--;
        CHECK_CODE(zoo_delete(session.zh, own, -1), ZOK);
    }
    session_close(&session);
    return NULL;
}

/* A holder whose session ends leaves the lock to the next one. */
static void holder_goes(zhandle_t *waiter) {
    struct session holder;
    char held[64];
    char own[64];
    session_open(&holder);
    acquire(holder.zh, held, sizeof held);
    session_close(&holder);
    acquire(waiter, own, sizeof own);
    CHECK(strcmp(own, held) > 0);
    CHECK_CODE(zoo_delete(waiter, own, -1), ZOK);
}

void locks(void) {
    pthread_t threads[CONTENDERS];
    struct session session;
    session_open(&session);
    CHECK_CODE(zoo_create(session.zh, "/cl", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0), ZOK);
    for (int i = 0; i < CONTENDERS; i++) {
        CHECK(pthread_create(&threads[i], NULL, contend, NULL) == 0);
    }
    for (int i = 0; i < CONTENDERS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    CHECK_CODE(turns, CONTENDERS * ROUNDS);
    holder_goes(session.zh);
    CHECK_CODE(zoo_delete(session.zh, "/cl", -1), ZOK);
    session_close(&session);
}
