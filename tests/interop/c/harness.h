/* What every part of the program uses: checks, sessions, watch events, and the talk with the test
 * harness (see tests/src/foreign.rs). */
#ifndef HARNESS_H
#define HARNESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <zookeeper/zookeeper.h>

/* Ends the program with the line of the check when it does not hold. */
#define CHECK(holds) check((holds), #holds, __FILE__, __LINE__)
/* The same for a result code of ZooKeeper's. */
#define CHECK_CODE(code, expected) check_code((code), (expected), #code, __FILE__, __LINE__)

void check(bool holds, const char *what, const char *file, int line);
void check_code(int code, int expected, const char *what, const char *file, int line);
int checks_done(void);

/* Watch events in the order in which they came. */
#define EVENTS_MAX 64
struct events {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int types[EVENTS_MAX];
    char paths[EVENTS_MAX][64];
    int count;
    int taken;
};

void events_init(struct events *events);
/* A watcher_fn; the context is a struct events. */
void note_event(zhandle_t *zh, int type, int state, const char *path, void *context);
/* Waits for the next event and checks what it is. */
void expect_event(struct events *events, int type, const char *path);
/* Checks that no event came that was not expected. */
void expect_no_event(struct events *events);

/* The code with which an asynchronous request ended. */
struct answer {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool given;
    int code;
};

void answer_init(struct answer *answer);
/* A void_completion_t; the context is a struct answer. */
void note_answer(int code, const void *answer);
int answer_await(struct answer *answer);

/* A session, and whether it is connected. */
struct session {
    zhandle_t *zh;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int state;
    int connections;
};

/* Opens a session on any of the servers and waits until it is connected. */
void session_open(struct session *session);
/* Waits until the session was connected `connections` times. */
void session_await(struct session *session, int connections);
/* After this the session reads what was acknowledged to others before. */
void session_sync(struct session *session, const char *path);
void session_close(struct session *session);

/* Has the server killed to which the session is connected, or the leader without a session. */
void lose_server(struct session *session);
/* Has it started again. */
void bring_back(void);

void sleep_ms(int ms);

#endif
