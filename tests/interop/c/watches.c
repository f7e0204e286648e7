/* One-shot watches: what fires them, once, and before the change can be read. */
#include <string.h>

#include "harness.h"
#include "parts.h"

/* The watch event comes before the answer that shows the change. */
static void event_before_data(struct session *watching, zhandle_t *changer) {
    zhandle_t *watcher = watching->zh;
    char data[16];
    int length = sizeof data;
    struct events events;
    events_init(&events);
    CHECK_CODE(zoo_wget(watcher, "/cw", note_event, &events, data, &length, NULL), ZOK);
    CHECK_CODE(zoo_set(changer, "/cw", "new", 3, -1), ZOK);
    for (int i = 0; i < 600; i++) {
        length = sizeof data;
        CHECK_CODE(zoo_get(watcher, "/cw", 0, data, &length, NULL), ZOK);
        if (length == 3) {
            break;
        }
        sleep_ms(20);
    }
    CHECK(length == 3 && memcmp(data, "new", 3) == 0);
    expect_event(&events, ZOO_CHANGED_EVENT, "/cw");
    CHECK_CODE(zoo_set(changer, "/cw", "", 0, -1), ZOK);
    session_sync(watching, "/cw");
    expect_no_event(&events);
}

static void life_of_a_znode(zhandle_t *watcher, zhandle_t *changer) {
    struct events events;
    struct events children;
    struct Stat stat;
    struct String_vector names;
    events_init(&events);
    events_init(&children);
    CHECK_CODE(zoo_wexists(watcher, "/cw/a", note_event, &events, &stat), ZNONODE);
    CHECK_CODE(zoo_wget_children2(watcher, "/cw", note_event, &children, &names, &stat), ZOK);
    CHECK_CODE(names.count, 0);
    deallocate_String_vector(&names);
    CHECK_CODE(zoo_create(changer, "/cw/a", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0), ZOK);
    expect_event(&events, ZOO_CREATED_EVENT, "/cw/a");
    expect_event(&children, ZOO_CHILD_EVENT, "/cw");
    CHECK_CODE(zoo_wexists(watcher, "/cw/a", note_event, &events, &stat), ZOK);
    CHECK_CODE(zoo_delete(changer, "/cw/a", -1), ZOK);
    expect_event(&events, ZOO_DELETED_EVENT, "/cw/a");
    /* The watch on children is used up. */
    expect_no_event(&children);
}

static void removed(struct session *watching, zhandle_t *changer) {
    zhandle_t *watcher = watching->zh;
    struct events events;
    struct Stat stat;
    events_init(&events);
    CHECK_CODE(zoo_wexists(watcher, "/cw", note_event, &events, &stat), ZOK);
    CHECK_CODE(zoo_remove_watches(watcher, "/cw", ZWATCHTYPE_CHILD, note_event, &events, 0),
               ZNOWATCHER);
    CHECK_CODE(zoo_remove_watches(watcher, "/cw", ZWATCHTYPE_DATA, note_event, &events, 0), ZOK);
    CHECK_CODE(zoo_remove_watches(watcher, "/cw", ZWATCHTYPE_DATA, note_event, &events, 0),
               ZNOWATCHER);
    CHECK_CODE(zoo_set(changer, "/cw", "x", 1, -1), ZOK);
    session_sync(watching, "/cw");
    expect_no_event(&events);
}

void watches(void) {
    struct session watcher;
    struct session changer;
    session_open(&watcher);
    session_open(&changer);
    CHECK_CODE(zoo_create(watcher.zh, "/cw", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0), ZOK);
    event_before_data(&watcher, changer.zh);
    life_of_a_znode(watcher.zh, changer.zh);
    removed(&watcher, changer.zh);
    CHECK_CODE(zoo_delete(watcher.zh, "/cw", -1), ZOK);
    session_close(&changer);
    session_close(&watcher);
}
