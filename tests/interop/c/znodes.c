/* Znodes of every kind, their data and their numbers; pipelined requests. */
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "parts.h"

#define LARGE_BYTES (512 * 1024)
#define PIPELINED 200

static void data_and_versions(zhandle_t *zh) {
    char path[64];
    char data[64];
    int length = sizeof data;
    struct Stat stat;
    CHECK_CODE(zoo_create(zh, "/c", "one", 3, &ZOO_OPEN_ACL_UNSAFE, 0, path, sizeof path), ZOK);
    CHECK(strcmp(path, "/c") == 0);
    CHECK_CODE(zoo_create(zh, "/c", "one", 3, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0), ZNODEEXISTS);
    CHECK_CODE(zoo_create(zh, "/no/c", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0), ZNONODE);
    CHECK_CODE(zoo_get(zh, "/c", 0, data, &length, &stat), ZOK);
    CHECK(length == 3 && memcmp(data, "one", 3) == 0);
    CHECK(stat.version == 0 && stat.dataLength == 3 && stat.czxid == stat.mzxid);
    CHECK(stat.ephemeralOwner == 0 && stat.numChildren == 0);
    CHECK_CODE(zoo_set2(zh, "/c", "two!", 4, 0, &stat), ZOK);
    CHECK(stat.version == 1 && stat.dataLength == 4 && stat.mzxid > stat.czxid);
    CHECK_CODE(zoo_set(zh, "/c", "x", 1, 0), ZBADVERSION);
    CHECK_CODE(zoo_set(zh, "/no", "x", 1, -1), ZNONODE);
    CHECK_CODE(zoo_exists(zh, "/no", 0, &stat), ZNONODE);
    CHECK_CODE(zoo_create(zh, "/c/", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0), ZBADARGUMENTS);

    /* Null and empty data are two things. */
    length = sizeof data;
    CHECK_CODE(zoo_create(zh, "/c/null", NULL, -1, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0), ZOK);
    CHECK_CODE(zoo_get(zh, "/c/null", 0, data, &length, NULL), ZOK);
    CHECK_CODE(length, -1);
    length = sizeof data;
    CHECK_CODE(zoo_create(zh, "/c/empty", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0), ZOK);
    CHECK_CODE(zoo_get(zh, "/c/empty", 0, data, &length, NULL), ZOK);
    CHECK_CODE(length, 0);
    CHECK_CODE(zoo_delete(zh, "/c", -1), ZNOTEMPTY);
    CHECK_CODE(zoo_delete(zh, "/c/null", 3), ZBADVERSION);
    CHECK_CODE(zoo_delete(zh, "/c/null", 0), ZOK);
    CHECK_CODE(zoo_delete(zh, "/c/empty", -1), ZOK);
}

static void large_data(zhandle_t *zh) {
    char *large = malloc(LARGE_BYTES);
    char *back = malloc(LARGE_BYTES);
    int length = LARGE_BYTES;
    memset(large, 'z', LARGE_BYTES);
    CHECK_CODE(zoo_create(zh, "/c/large", large, LARGE_BYTES, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0), ZOK);
    CHECK_CODE(zoo_get(zh, "/c/large", 0, back, &length, NULL), ZOK);
    CHECK(length == LARGE_BYTES && memcmp(large, back, LARGE_BYTES) == 0);
    CHECK_CODE(zoo_delete(zh, "/c/large", -1), ZOK);
    free(large);
    free(back);
}

static void kinds(zhandle_t *zh) {
    char path[64];
    struct Stat stat;
    struct String_vector children;
    CHECK_CODE(zoo_create2(zh, "/c/container", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_CONTAINER, path,
                           sizeof path, &stat), ZOK);
    CHECK_CODE(zoo_create_ttl(zh, "/c/ttl", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_WITH_TTL,
                              600000, path, sizeof path), ZOK);
    CHECK_CODE(zoo_create2(zh, "/c/mine", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, path,
                           sizeof path, &stat), ZOK);
    CHECK(stat.ephemeralOwner == zoo_client_id(zh)->client_id);
    CHECK_CODE(zoo_create(zh, "/c/mine/x", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0),
               ZNOCHILDRENFOREPHEMERALS);
    CHECK_CODE(zoo_create(zh, "/c/s-", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_SEQUENCE, path, sizeof path),
               ZOK);
    /* /c had six children before: the number counts every creation below the parent. */
    CHECK(strcmp(path, "/c/s-0000000006") == 0);
    CHECK_CODE(zoo_get_children2(zh, "/c", 0, &children, &stat), ZOK);
    CHECK(children.count == 4 && stat.numChildren == 4);
    deallocate_String_vector(&children);
    CHECK_CODE(zoo_delete(zh, "/c/container", -1), ZOK);
    CHECK_CODE(zoo_delete(zh, "/c/ttl", -1), ZOK);
    CHECK_CODE(zoo_delete(zh, "/c/mine", -1), ZOK);
    CHECK_CODE(zoo_delete(zh, path, -1), ZOK);
}

/* Completions of pipelined requests, in the order in which they ran. */
struct completions {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int count;
    int last;
};

struct completion {
    struct completions *all;
    int number;
};

static void created(int code, const char *path, const void *data) {
    const struct completion *own = data;
    CHECK_CODE(code, ZOK);
    CHECK(strncmp(path, "/c/p-", 5) == 0);
    pthread_mutex_lock(&own->all->mutex);
    CHECK(own->number == own->all->count);
    own->all->last = atoi(path + 5);
    own->all->count++;
    pthread_cond_broadcast(&own->all->changed);
    pthread_mutex_unlock(&own->all->mutex);
}

static void pipelined(zhandle_t *zh) {
    static struct completions all = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};
    static struct completion each[PIPELINED];
    struct String_vector children;
    for (int i = 0; i < PIPELINED; i++) {
        each[i].all = &all;
        each[i].number = i;
        CHECK_CODE(zoo_acreate(zh, "/c/p-", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL,
                               created, &each[i]), ZOK);
    }
    pthread_mutex_lock(&all.mutex);
    while (all.count < PIPELINED) {
        pthread_cond_wait(&all.changed, &all.mutex);
    }
    pthread_mutex_unlock(&all.mutex);
    /* Seven creations came before them. */
    CHECK_CODE(all.last, 7 + PIPELINED - 1);
    CHECK_CODE(zoo_get_children(zh, "/c", 0, &children), ZOK);
    CHECK_CODE(children.count, PIPELINED);
    deallocate_String_vector(&children);
}

void znodes(void) {
    struct session session;
    struct session other;
    struct Stat stat;
    char config[1024];
    int length = sizeof config - 1;
    session_open(&session);
    data_and_versions(session.zh);
    large_data(session.zh);
    kinds(session.zh);
    pipelined(session.zh);
    CHECK_CODE(zoo_getconfig(session.zh, 0, config, &length, &stat), ZOK);
    config[length] = '\0';
    CHECK(strstr(config, "server.1=") != NULL && strstr(config, "server.3=") != NULL);
    CHECK(strstr(config, "version=") != NULL);
    /* The end of a session takes its ephemerals along. */
    session_close(&session);
    session_open(&other);
    session_sync(&other, "/c");
    CHECK_CODE(zoo_exists(other.zh, "/c", 0, &stat), ZOK);
    CHECK_CODE(stat.numChildren, 0);
    CHECK_CODE(zoo_delete(other.zh, "/c", -1), ZOK);
    session_close(&other);
}
