package main

import (
	"github.com/go-zookeeper/zk"
)

func accessControl(servers []string) {
	owner := connect(servers, sessionTimeout)
	defer owner.Close()
	stranger := connect(servers, sessionTimeout)
	defer stranger.Close()

	ok(owner.AddAuth("digest", []byte("gopher:burrow")), "authenticate")
	_, err := owner.Create("/go/own", []byte("secret"), zk.FlagPersistent, zk.AuthACL(zk.PermAll))
	ok(err, "create for the authenticated")
	acl, stat, err := owner.GetACL("/go/own")
	ok(err, "get the ACL")
	equal(acl, zk.DigestACL(zk.PermAll, "gopher", "burrow"), "auth, as the server fills it in")
	equal(stat.Aversion, int32(0), "aversion")

	_, err = stranger.Sync("/go/own")
	ok(err, "sync")
	_, _, err = stranger.Get("/go/own")
	failsWith(err, zk.ErrNoAuth, "get as a stranger")
	_, err = stranger.Set("/go/own", nil, -1)
	failsWith(err, zk.ErrNoAuth, "set as a stranger")
	_, err = stranger.SetACL("/go/own", anyone, -1)
	failsWith(err, zk.ErrNoAuth, "set the ACL as a stranger")
	_, err = stranger.Create("/go/own/child", nil, zk.FlagPersistent, anyone)
	failsWith(err, zk.ErrNoAuth, "create as a stranger")
	_, err = stranger.Create("/go/none", nil, zk.FlagPersistent, zk.AuthACL(zk.PermAll))
	failsWith(err, zk.ErrInvalidACL, "auth without an identity")

	both := append(zk.WorldACL(zk.PermRead), zk.DigestACL(zk.PermAll, "gopher", "burrow")...)
	stat, err = owner.SetACL("/go/own", both, 0)
	ok(err, "set the ACL")
	equal(stat.Aversion, int32(1), "aversion after it")
	_, err = owner.SetACL("/go/own", both, 0)
	failsWith(err, zk.ErrBadVersion, "set the ACL with an old version")

	_, err = stranger.Sync("/go/own")
	ok(err, "sync")
	data, _, err := stranger.Get("/go/own")
	ok(err, "get as a stranger who may read")
	equal(string(data), "secret", "what a stranger reads")
	_, err = stranger.Set("/go/own", nil, -1)
	failsWith(err, zk.ErrNoAuth, "set as a stranger who may read")

	ok(stranger.AddAuth("digest", []byte("gopher:burrow")), "authenticate late")
	_, err = stranger.Set("/go/own", []byte("shared"), -1)
	ok(err, "set with the same identity")
}
