#define _POSIX_C_SOURCE 200809L
#include "harness.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TIMEOUT_MS 8000
#define WAIT_MAX_S 60

static pthread_mutex_t checks_mutex = PTHREAD_MUTEX_INITIALIZER;
static int checks;

void check(bool holds, const char *what, const char *file, int line) {
    if (!holds) {
        fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
        exit(1);
    }
    pthread_mutex_lock(&checks_mutex);
    checks++;
    pthread_mutex_unlock(&checks_mutex);
}

void check_code(int code, int expected, const char *what, const char *file, int line) {
    if (code != expected) {
        fprintf(stderr, "%s:%d: %d (%s) instead of %d (%s)\n", file, line, code, zerror(code),
                expected, zerror(expected));
    }
    check(code == expected, what, file, line);
}

int checks_done(void) { return checks; }

static struct timespec deadline(void) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_MAX_S;
    return until;
}

void events_init(struct events *events) {
    memset(events, 0, sizeof *events);
    pthread_mutex_init(&events->mutex, NULL);
    pthread_cond_init(&events->changed, NULL);
}

void note_event(zhandle_t *zh, int type, int state, const char *path, void *context) {
    struct events *events = context;
    (void)zh;
    (void)state;
    /* Every watcher gets the loss of the connection too; the session's watcher reports that. */
    if (type == ZOO_SESSION_EVENT) {
        return;
    }
    pthread_mutex_lock(&events->mutex);
    CHECK(events->count < EVENTS_MAX);
    events->types[events->count] = type;
    snprintf(events->paths[events->count], sizeof events->paths[0], "%s", path);
    events->count++;
    pthread_cond_broadcast(&events->changed);
    pthread_mutex_unlock(&events->mutex);
}

void expect_event(struct events *events, int type, const char *path) {
    struct timespec until = deadline();
    pthread_mutex_lock(&events->mutex);
    while (events->taken == events->count) {
        if (pthread_cond_timedwait(&events->changed, &events->mutex, &until) != 0) {
            fprintf(stderr, "no event of type %d for %s\n", type, path);
            exit(1);
        }
    }
    CHECK_CODE(events->types[events->taken], type);
    CHECK(strcmp(events->paths[events->taken], path) == 0);
    events->taken++;
    pthread_mutex_unlock(&events->mutex);
}

void expect_no_event(struct events *events) {
    pthread_mutex_lock(&events->mutex);
    CHECK(events->taken == events->count);
    pthread_mutex_unlock(&events->mutex);
}

void answer_init(struct answer *answer) {
    memset(answer, 0, sizeof *answer);
    pthread_mutex_init(&answer->mutex, NULL);
    pthread_cond_init(&answer->changed, NULL);
}

void note_answer(int code, const void *context) {
    struct answer *answer = (struct answer *)context;
    pthread_mutex_lock(&answer->mutex);
    answer->given = true;
    answer->code = code;
    pthread_cond_broadcast(&answer->changed);
    pthread_mutex_unlock(&answer->mutex);
}

int answer_await(struct answer *answer) {
    struct timespec until = deadline();
    pthread_mutex_lock(&answer->mutex);
    while (!answer->given) {
        if (pthread_cond_timedwait(&answer->changed, &answer->mutex, &until) != 0) {
            fprintf(stderr, "no answer\n");
            exit(1);
        }
    }
    pthread_mutex_unlock(&answer->mutex);
    return answer->code;
}

static void note_state(zhandle_t *zh, int type, int state, const char *path, void *context) {
    struct session *session = context;
    (void)zh;
    (void)path;
    if (type != ZOO_SESSION_EVENT) {
        return;
    }
    pthread_mutex_lock(&session->mutex);
    session->state = state;
    if (state == ZOO_CONNECTED_STATE) {
        session->connections++;
    }
    pthread_cond_broadcast(&session->changed);
    pthread_mutex_unlock(&session->mutex);
}

void session_open(struct session *session) {
    memset(session, 0, sizeof *session);
    pthread_mutex_init(&session->mutex, NULL);
    pthread_cond_init(&session->changed, NULL);
    const char *servers = getenv("ZK_CONNECT");
#ifdef HAVE_OPENSSL_H
    session->zh =
        zookeeper_init_ssl(servers, getenv("TLS_FILES"), note_state, TIMEOUT_MS, NULL, session, 0);
#else
    session->zh = zookeeper_init(servers, note_state, TIMEOUT_MS, NULL, session, 0);
#endif
    CHECK(session->zh != NULL);
    session_await(session, 1);
}

void session_await(struct session *session, int connections) {
    struct timespec until = deadline();
    pthread_mutex_lock(&session->mutex);
    while (session->connections < connections || session->state != ZOO_CONNECTED_STATE) {
        if (pthread_cond_timedwait(&session->changed, &session->mutex, &until) != 0) {
            fprintf(stderr, "not connected: state %d\n", session->state);
            exit(1);
        }
        CHECK(session->state != ZOO_EXPIRED_SESSION_STATE);
    }
    pthread_mutex_unlock(&session->mutex);
}

static void note_synced(int code, const char *path, const void *context) {
    (void)path;
    note_answer(code, context);
}

void session_sync(struct session *session, const char *path) {
    struct answer answer;
    answer_init(&answer);
    CHECK_CODE(zoo_async(session->zh, path, note_synced, &answer), ZOK);
    CHECK_CODE(answer_await(&answer), ZOK);
}

void session_close(struct session *session) { CHECK_CODE(zookeeper_close(session->zh), ZOK); }

/* Reads the harness' answer and checks how it begins. */
static void expect_answer(const char *start) {
    char line[128];
    CHECK(fgets(line, sizeof line, stdin) != NULL);
    CHECK(strncmp(line, start, strlen(start)) == 0);
}

void lose_server(struct session *session) {
    if (session == NULL) {
        printf("LOSE SERVER\n");
    } else {
        struct sockaddr_in server;
        socklen_t length = sizeof server;
        char host[INET_ADDRSTRLEN];
        CHECK(zookeeper_get_connected_host(session->zh, (struct sockaddr *)&server, &length) != NULL);
        CHECK(server.sin_family == AF_INET);
        inet_ntop(AF_INET, &server.sin_addr, host, sizeof host);
        printf("LOSE SERVER %s:%d\n", host, ntohs(server.sin_port));
    }
    fflush(stdout);
    expect_answer("LOST ");
}

void bring_back(void) {
    printf("BRING BACK\n");
    fflush(stdout);
    expect_answer("BACK");
}

void sleep_ms(int ms) {
    struct timespec time = {ms / 1000, (long)(ms % 1000) * 1000000};
    nanosleep(&time, NULL);
}
