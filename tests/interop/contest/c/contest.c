/* An asynchronous sequential lock over libzookeeper-mt, and the talk with the referee (see
 * tests/src/contenders). Each contender is a state machine that only completions, watches and the
 * referee's lines drive; no call waits for a reply. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

#define CONTENDERS_MAX 16
#define PATH_BYTES_MAX 512
#define DIE(...) die(__LINE__, __VA_ARGS__)

enum state { CONNECTING, READY, QUEUING, HOLDING, RELEASING };

struct contender {
    zhandle_t *zh;
    int number;
    enum state state;
    /* One of each at a time: an old watch may fire while either is on its way. */
    bool creating;
    bool listing;
    const char *path;
    /* The name under which this attempt queues, unique among all contenders and attempts. */
    char attempt[64];
    unsigned attempts;
    char own[PATH_BYTES_MAX];
};

static struct contender contenders[CONTENDERS_MAX];
static int count;
static int ready_count;
static int done_count;
static volatile bool stopped;
static pthread_mutex_t shared = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void enqueue(struct contender *contender);
static void list(struct contender *contender);
static void withdraw(struct contender *contender);

static void die(int line, const char *format, const char *what, int code) {
    fprintf(stderr, "contest.c:%d: ", line);
    fprintf(stderr, format, what, code);
    fprintf(stderr, "\n");
    fflush(stderr);
    _exit(1);
}

static void say(const char *format, int number) {
    pthread_mutex_lock(&shared);
    printf(format, number);
    fflush(stdout);
    pthread_mutex_unlock(&shared);
}

static void rest(void) {
    struct timespec time = {0, (1 + rand() % 14) * 1000000L};
    nanosleep(&time, NULL);
}

static void add_to(int *counter) {
    pthread_mutex_lock(&shared);
    *counter += 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&shared);
}

static void wait_for_all(const int *counter) {
    pthread_mutex_lock(&shared);
    while (*counter < count) {
        pthread_cond_wait(&changed, &shared);
    }
    pthread_mutex_unlock(&shared);
}

/* A reply that never came says nothing about what the server did. */
static bool is_lost(int code) {
    return code == ZCONNECTIONLOSS || code == ZOPERATIONTIMEOUT;
}

static void expect_sent(int code, const char *what) {
    if (code != ZOK) {
        DIE("%s: %d", what, code);
    }
}

/* --- queue up --- */

static void listed(int code, const struct String_vector *names, const void *data);

static void created(int code, const char *path, const void *data) {
    struct contender *contender = (struct contender *)data;
    if (code != ZOK && !is_lost(code)) {
        DIE("create in %s: %d", contender->path, code);
    }
    if (code == ZOK) {
        snprintf(contender->own, sizeof contender->own, "%s", path);
    }
    contender->creating = false;
    list(contender);
}

static void enqueue(struct contender *contender) {
    char path[PATH_BYTES_MAX];
    contender->creating = true;
    snprintf(path, sizeof path, "%s/%s-", contender->path, contender->attempt);
    expect_sent(zoo_acreate(contender->zh, path, "", 0, &ZOO_OPEN_ACL_UNSAFE,
                            ZOO_EPHEMERAL_SEQUENTIAL, created, contender), "create");
}

static void begin(struct contender *contender) {
    if (stopped) {
        contender->state = READY;
        add_to(&done_count);
        return;
    }
    contender->state = QUEUING;
    contender->own[0] = '\0';
    snprintf(contender->attempt, sizeof contender->attempt, "%d-%d-%u", getpid(),
             contender->number, contender->attempts++);
    enqueue(contender);
}

static void list(struct contender *contender) {
    if (contender->listing) {
        return;
    }
    contender->listing = true;
    expect_sent(zoo_aget_children(contender->zh, contender->path, 0, listed, contender), "list");
}

/* --- wait for the one before --- */

static void predecessor_event(zhandle_t *zh, int type, int state, const char *path, void *data) {
    struct contender *contender = data;
    (void)zh;
    (void)state;
    (void)path;
    /* Session events come to every watcher, and leave the watch where it is. */
    if (type != ZOO_SESSION_EVENT && contender->state == QUEUING) {
        list(contender);
    }
}

static void watched(int code, const struct Stat *stat, const void *data) {
    struct contender *contender = (struct contender *)data;
    (void)stat;
    if (contender->state != QUEUING) {
        return;
    }
    if (code == ZNONODE || is_lost(code)) {
        /* It went between the list and the watch; or it is not known whether the watch is there. */
        list(contender);
    } else if (code != ZOK) {
        DIE("exists in %s: %d", contender->path, code);
    }
}

static const char *number_of(const char *name) {
    const char *dash = strrchr(name, '-');
    return dash == NULL ? name : dash;
}

static bool is_own(const struct contender *contender, const char *name) {
    size_t length = strlen(contender->attempt);
    return strncmp(name, contender->attempt, length) == 0 && name[length] == '-';
}

/* The nearest name before the own one; NULL when there is none. */
static const char *before(const struct String_vector *names, const char *own) {
    const char *nearest = NULL;
    for (int i = 0; i < names->count; i++) {
        const char *name = names->data[i];
        if (strcmp(number_of(name), number_of(own)) < 0
            && (nearest == NULL || strcmp(number_of(name), number_of(nearest)) > 0)) {
            nearest = name;
        }
    }
    return nearest;
}

static void listed(int code, const struct String_vector *names, const void *data) {
    struct contender *contender = (struct contender *)data;
    const char *own = NULL;
    contender->listing = false;
    if (contender->state != QUEUING || contender->creating) {
        return;
    }
    if (is_lost(code)) {
        rest();
        list(contender);
        return;
    }
    if (code != ZOK) {
        DIE("list %s: %d", contender->path, code);
    }
    for (int i = 0; i < names->count; i++) {
        if (is_own(contender, names->data[i])) {
            own = names->data[i];
        }
    }
    if (own == NULL) {
        if (contender->own[0] != '\0') {
            DIE("%s is gone: %d", contender->own, code);
        }
        /* The reply to the create was lost, and so was the create. */
        enqueue(contender);
        return;
    }
    snprintf(contender->own, sizeof contender->own, "%s/%s", contender->path, own);
    const char *predecessor = before(names, own);
    if (predecessor == NULL) {
        contender->state = HOLDING;
        say("HELD %d exclusive\n", contender->number);
        return;
    }
    char path[PATH_BYTES_MAX];
    snprintf(path, sizeof path, "%s/%s", contender->path, predecessor);
    expect_sent(zoo_awexists(contender->zh, path, predecessor_event, contender, watched,
                             contender), "exists");
}

/* --- release --- */

static void deleted(int code, const void *data) {
    struct contender *contender = (struct contender *)data;
    if (is_lost(code)) {
        rest();
        withdraw(contender);
        return;
    }
    if (code != ZOK && code != ZNONODE) {
        DIE("delete %s: %d", contender->own, code);
    }
    rest();
    begin(contender);
}

static void withdraw(struct contender *contender) {
    expect_sent(zoo_adelete(contender->zh, contender->own, -1, deleted, contender), "delete");
}

/* --- sessions and the referee --- */

static void parent_created(int code, const char *path, const void *data) {
    struct contender *contender = (struct contender *)data;
    (void)path;
    if (code != ZOK && code != ZNODEEXISTS) {
        DIE("create %s: %d", contender->path, code);
    }
    contender->state = READY;
    add_to(&ready_count);
}

static void session_event(zhandle_t *zh, int type, int state, const char *path, void *data) {
    struct contender *contender = data;
    (void)path;
    if (type != ZOO_SESSION_EVENT) {
        return;
    }
    if (state == ZOO_EXPIRED_SESSION_STATE || state == ZOO_AUTH_FAILED_STATE) {
        DIE("the session for %s ended: %d", contender->path, state);
    }
    if (state == ZOO_CONNECTED_STATE && contender->state == CONNECTING) {
        expect_sent(zoo_acreate(zh, contender->path, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0,
                                parent_created, contender), "create the parent");
    }
}

static const char *setting(const char *name) {
    const char *value = getenv(name);
    if (value == NULL) {
        DIE("%s is not set: %d", name, 0);
    }
    return value;
}

static void open_contender(int number, const char *word) {
    struct contender *contender = &contenders[number];
    if (strncmp(word, "mutex:", 6) != 0) {
        DIE("no such recipe: %s (%d)", word, number);
    }
    contender->number = number;
    contender->path = word + 6;
    contender->state = CONNECTING;
    contender->zh = zookeeper_init(setting("ZK_CONNECT"), session_event,
                                   atoi(setting("ZK_SESSION_TIMEOUT_MS")), NULL, contender, 0);
    if (contender->zh == NULL) {
        DIE("zookeeper_init: %s (%d)", strerror(errno), errno);
    }
}

/* A contender that gets the word to go on is moved on by this thread: its own one is idle meanwhile. */
static void go_on(int number) {
    if (number < 0 || number >= count) {
        DIE("%s contender %d", "no such", number);
    }
    struct contender *contender = &contenders[number];
    if (contender->state == HOLDING) {
        contender->state = RELEASING;
        rest();
        say("FREE %d\n", number);
    } else if (contender->state == RELEASING) {
        withdraw(contender);
    } else {
        DIE("%s answer to contender %d", "unasked", number);
    }
}

static void *read_orders(void *unused) {
    char line[64];
    int number;
    (void)unused;
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (strcmp(line, "GO\n") == 0) {
            for (int i = 0; i < count; i++) {
                begin(&contenders[i]);
            }
        } else if (strcmp(line, "STOP\n") == 0) {
            stopped = true;
        } else if (sscanf(line, "OK %d", &number) == 1) {
            go_on(number);
        } else {
            DIE("the referee said %s (%d)", line, 0);
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t listener;
    count = argc - 1;
    if (count < 1 || count > CONTENDERS_MAX) {
        DIE("%s: %d contenders", argv[0], count);
    }
    srand((unsigned)getpid());
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    for (int i = 0; i < count; i++) {
        open_contender(i, argv[i + 1]);
    }
    wait_for_all(&ready_count);
    printf("READY\n");
    fflush(stdout);
    if (pthread_create(&listener, NULL, read_orders, NULL) != 0) {
        DIE("%s: %d", "pthread_create", errno);
    }
    wait_for_all(&done_count);
    for (int i = 0; i < count; i++) {
        zookeeper_close(contenders[i].zh);
    }
    printf("DONE\n");
    fflush(stdout);
    _exit(0);
}
