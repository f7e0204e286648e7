package main

import (
	"sort"
	"time"

	"github.com/go-zookeeper/zk"
)

func znodes(servers []string) {
	conn := connect(servers, sessionTimeout)
	defer conn.Close()

	path, err := conn.Create("/go", []byte("root"), zk.FlagPersistent, anyone)
	ok(err, "create")
	equal(path, "/go", "the created path")
	_, err = conn.Create("/go", nil, zk.FlagPersistent, anyone)
	failsWith(err, zk.ErrNodeExists, "create twice")
	_, err = conn.Create("/go/none/below", nil, zk.FlagPersistent, anyone)
	failsWith(err, zk.ErrNoNode, "create without a parent")

	data, stat, err := conn.Get("/go")
	ok(err, "get")
	equal(string(data), "root", "the data")
	equal(stat.Version, int32(0), "the first version")
	equal(stat.DataLength, int32(4), "the data length")
	equal(stat.Czxid, stat.Mzxid, "czxid and mzxid of a new znode")
	check(stat.Czxid > 0, "czxid %d", stat.Czxid)
	check(time.Since(time.UnixMilli(stat.Ctime)).Abs() < time.Hour, "ctime %d", stat.Ctime)

	changed, err := conn.Set("/go", []byte("again"), 0)
	ok(err, "set")
	equal(changed.Version, int32(1), "the version after set")
	check(changed.Mzxid > stat.Mzxid, "mzxid %d after %d", changed.Mzxid, stat.Mzxid)
	equal(changed.Czxid, stat.Czxid, "czxid after set")
	_, err = conn.Set("/go", nil, 0)
	failsWith(err, zk.ErrBadVersion, "set with an old version")
	_, err = conn.Set("/go/none", nil, -1)
	failsWith(err, zk.ErrNoNode, "set of nothing")

	childrenAndSequences(conn)
	ephemerals(servers, conn)

	failsWith(conn.Delete("/go", -1), zk.ErrNotEmpty, "delete with children")
	failsWith(conn.Delete("/go/b", 7), zk.ErrBadVersion, "delete with a wrong version")
	ok(conn.Delete("/go/b", 0), "delete")
	failsWith(conn.Delete("/go/b", -1), zk.ErrNoNode, "delete twice")
	there, _, err := conn.Exists("/go/b")
	ok(err, "exists of nothing")
	check(!there, "a deleted znode exists")
	synced, err := conn.Sync("/go")
	ok(err, "sync")
	equal(synced, "/go", "the synced path")
}

func childrenAndSequences(conn *zk.Conn) {
	for _, name := range []string{"b", "a"} {
		_, err := conn.Create("/go/"+name, nil, zk.FlagPersistent, anyone)
		ok(err, "create a child")
	}
	children, stat, err := conn.Children("/go")
	ok(err, "children")
	sort.Strings(children)
	equal(children, []string{"a", "b"}, "the children")
	equal(stat.NumChildren, int32(2), "the number of children")
	equal(stat.Cversion, int32(2), "cversion")

	first, err := conn.Create("/go/a/seq-", nil, zk.FlagSequence, anyone)
	ok(err, "create a sequence")
	second, err := conn.Create("/go/a/seq-", nil, zk.FlagSequence, anyone)
	ok(err, "create the next of a sequence")
	equal(first, "/go/a/seq-0000000000", "the first sequence name")
	equal(second, "/go/a/seq-0000000001", "the second sequence name")
}

func ephemerals(servers []string, conn *zk.Conn) {
	owner := connect(servers, sessionTimeout)
	_, err := owner.Create("/go/mine", []byte("me"), zk.FlagEphemeral, anyone)
	ok(err, "create an ephemeral")
	_, err = owner.Create("/go/mine/child", nil, zk.FlagPersistent, anyone)
	failsWith(err, zk.ErrNoChildrenForEphemerals, "a child of an ephemeral")

	_, err = conn.Sync("/go/mine")
	ok(err, "sync before another's write is read")
	there, stat, gone, err := conn.ExistsW("/go/mine")
	ok(err, "exists of another's ephemeral")
	check(there, "another's ephemeral is not there")
	equal(stat.EphemeralOwner, owner.SessionID(), "the ephemeral owner")
	owner.Close()
	equal(next(gone, "the end of the owner").Type, zk.EventNodeDeleted, "the event")
}

func containersAndTTL(servers []string) {
	conn := connect(servers, sessionTimeout)
	defer conn.Close()

	path, err := conn.CreateContainer("/go/box", nil, zk.FlagContainer, anyone)
	ok(err, "create a container")
	equal(path, "/go/box", "the container's path")
	_, _, gone, err := conn.ExistsW("/go/box")
	ok(err, "watch the container")
	_, err = conn.Create("/go/box/inside", nil, zk.FlagPersistent, anyone)
	ok(err, "create in the container")
	ok(conn.Delete("/go/box/inside", -1), "empty the container")

	path, err = conn.CreateTTL("/go/brief", []byte("x"), zk.FlagTTL, anyone, 500*time.Millisecond)
	ok(err, "create with a time to live")
	equal(path, "/go/brief", "its path")
	path, err = conn.CreateTTL("/go/brief-", nil, zk.FlagPersistentSequentialWithTTL, anyone, time.Hour)
	ok(err, "create a sequence with a time to live")
	check(len(path) == len("/go/brief-")+10, "its path %q", path)
	there, stat, expired, err := conn.ExistsW("/go/brief")
	ok(err, "watch the brief znode")
	check(!there || stat.EphemeralOwner != conn.SessionID(), "a znode with a time to live is not ephemeral")

	// The server looks for both at its own interval: 60 s by default, which
	// the harness sets lower.
	if there {
		equal(next(expired, "the time to live").Type, zk.EventNodeDeleted, "the event")
	}
	equal(next(gone, "the empty container").Type, zk.EventNodeDeleted, "the event")
}
