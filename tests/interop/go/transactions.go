package main

import (
	"github.com/go-zookeeper/zk"
)

func transactions(servers []string) {
	conn := connect(servers, sessionTimeout)
	defer conn.Close()

	results, err := conn.Multi(
		&zk.CreateRequest{Path: "/go/multi", Data: []byte("a"), Acl: anyone},
		&zk.CreateRequest{Path: "/go/multi/n-", Acl: anyone, Flags: zk.FlagSequence},
		&zk.SetDataRequest{Path: "/go/multi", Data: []byte("bc"), Version: 0},
		&zk.CheckVersionRequest{Path: "/go/multi", Version: 1},
		&zk.DeleteRequest{Path: "/go/multi/n-0000000000", Version: -1},
	)
	ok(err, "multi")
	equal(len(results), 5, "the number of results")
	equal(results[0].String, "/go/multi", "the first result")
	equal(results[1].String, "/go/multi/n-0000000000", "the second result")
	equal(results[2].Stat.Version, int32(1), "the version in the third result")
	equal(results[2].Stat.DataLength, int32(2), "the length in the third result")

	_, stat, err := conn.Get("/go/multi")
	ok(err, "get after multi")
	equal(stat.Mzxid, stat.Czxid, "all of a multi under one zxid")

	// One part fails: none is done, and each says why it was not.
	results, err = conn.Multi(
		&zk.SetDataRequest{Path: "/go/multi", Data: []byte("lost"), Version: -1},
		&zk.DeleteRequest{Path: "/go/multi/none", Version: -1},
		&zk.CreateRequest{Path: "/go/multi/late", Acl: anyone},
	)
	failsWith(err, zk.ErrNoNode, "the first error, as the library reports it")
	equal(len(results), 3, "the number of its results")
	check(results[0].Error == nil, "before the failure: %v", results[0].Error)
	failsWith(results[1].Error, zk.ErrNoNode, "the failure")
	check(results[2].Error != nil, "after the failure: no error")
	data, _, err := conn.Get("/go/multi")
	ok(err, "get after a failed multi")
	equal(string(data), "bc", "the data after a failed multi")
	there, _, err := conn.Exists("/go/multi/late")
	ok(err, "exists after a failed multi")
	check(!there, "a failed multi created a znode")
}
