/* Identities and access lists. */
#include <string.h>

#include "harness.h"
#include "parts.h"

static int add_auth(zhandle_t *zh, const char *scheme, const char *identity) {
    struct answer answer;
    answer_init(&answer);
    CHECK_CODE(zoo_add_auth(zh, scheme, identity, (int)strlen(identity), note_answer, &answer), ZOK);
    return answer_await(&answer);
}

static void only_the_owner(struct session *owner, struct session *other) {
    char data[16];
    int length = sizeof data;
    struct ACL_vector acl;
    struct Stat stat;
    CHECK_CODE(zoo_create(owner->zh, "/ca", "mine", 4, &ZOO_CREATOR_ALL_ACL, 0, NULL, 0),
               ZINVALIDACL);
    CHECK_CODE(add_auth(owner->zh, "digest", "alice:secret"), ZOK);
    CHECK_CODE(zoo_create(owner->zh, "/ca", "mine", 4, &ZOO_CREATOR_ALL_ACL, 0, NULL, 0), ZOK);
    CHECK_CODE(zoo_get(owner->zh, "/ca", 0, data, &length, &stat), ZOK);
    CHECK_CODE(zoo_get_acl(owner->zh, "/ca", &acl, &stat), ZOK);
    CHECK(acl.count == 1 && strcmp(acl.data[0].id.scheme, "digest") == 0);
    CHECK(strcmp(acl.data[0].id.id, "alice:aYXlLOpEooaV1cRAvUL1fp9Qt7E=") == 0);
    CHECK(acl.data[0].perms == ZOO_PERM_ALL);
    deallocate_ACL_vector(&acl);

    length = sizeof data;
    session_sync(other, "/ca");
    CHECK_CODE(zoo_get(other->zh, "/ca", 0, data, &length, &stat), ZNOAUTH);
    CHECK_CODE(zoo_set(other->zh, "/ca", "x", 1, -1), ZNOAUTH);
    CHECK_CODE(zoo_create(other->zh, "/ca/x", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0), ZNOAUTH);
    CHECK_CODE(add_auth(other->zh, "digest", "alice:wrong"), ZOK);
    CHECK_CODE(zoo_set(other->zh, "/ca", "x", 1, -1), ZNOAUTH);
    CHECK_CODE(add_auth(other->zh, "digest", "alice:secret"), ZOK);
    CHECK_CODE(zoo_set(other->zh, "/ca", "x", 1, -1), ZOK);
}

static void given_away(struct session *owner, struct session *stranger) {
    char data[16];
    int length = sizeof data;
    CHECK_CODE(zoo_set_acl(owner->zh, "/ca", 7, &ZOO_READ_ACL_UNSAFE), ZBADVERSION);
    CHECK_CODE(zoo_set_acl(owner->zh, "/ca", 0, &ZOO_READ_ACL_UNSAFE), ZOK);
    session_sync(stranger, "/ca");
    CHECK_CODE(zoo_get(stranger->zh, "/ca", 0, data, &length, NULL), ZOK);
    CHECK(length == 1 && data[0] == 'x');
    CHECK_CODE(zoo_set(owner->zh, "/ca", "y", 1, -1), ZNOAUTH);
    /* To delete is the parent's right to give. */
    CHECK_CODE(zoo_delete(stranger->zh, "/ca", -1), ZOK);
}

void access_rights(void) {
    struct session owner;
    struct session other;
    struct session stranger;
    session_open(&owner);
    session_open(&other);
    session_open(&stranger);
    only_the_owner(&owner, &other);
    given_away(&owner, &stranger);
    session_close(&stranger);
    session_close(&other);
    session_close(&owner);
}
