package main

import (
	"github.com/go-zookeeper/zk"
)

func watches(servers []string) {
	watcher := connect(servers, sessionTimeout)
	defer watcher.Close()
	writer := connect(servers, sessionTimeout)
	defer writer.Close()

	_, err := writer.Create("/go/watched", []byte("0"), zk.FlagPersistent, anyone)
	ok(err, "create")
	_, err = watcher.Sync("/go/watched")
	ok(err, "sync")

	_, _, data, err := watcher.GetW("/go/watched")
	ok(err, "get and watch")
	_, _, children, err := watcher.ChildrenW("/go/watched")
	ok(err, "children and watch")
	there, _, born, err := watcher.ExistsW("/go/watched/child")
	ok(err, "exists and watch")
	check(!there, "the child is there too early")

	_, err = writer.Create("/go/watched/child", nil, zk.FlagPersistent, anyone)
	ok(err, "create the child")
	event := next(born, "exists")
	equal(event.Type, zk.EventNodeCreated, "the event on exists")
	equal(event.Path, "/go/watched/child", "its path")
	event = next(children, "children")
	equal(event.Type, zk.EventNodeChildrenChanged, "the event on children")
	equal(event.Path, "/go/watched", "its path")
	silent(data, "a new child, seen by the data watch")

	_, err = writer.Set("/go/watched", []byte("1"), -1)
	ok(err, "set")
	equal(next(data, "data").Type, zk.EventNodeDataChanged, "the event on data")

	// A read after the event returns nothing older than it.
	value, _, data, err := watcher.GetW("/go/watched")
	ok(err, "get after the event")
	equal(string(value), "1", "the data after the event")

	_, _, left, err := watcher.ChildrenW("/go/watched")
	ok(err, "watch the children again")
	ok(writer.Delete("/go/watched/child", -1), "delete the child")
	equal(next(left, "the child's end").Type, zk.EventNodeChildrenChanged, "the event")
	_, _, end, err := watcher.ChildrenW("/go/watched")
	ok(err, "watch the children once more")
	ok(writer.Delete("/go/watched", -1), "delete")
	equal(next(data, "the end, by data").Type, zk.EventNodeDeleted, "the event")
	equal(next(end, "the end, by children").Type, zk.EventNodeDeleted, "the event")
	_, _, _, err = watcher.GetW("/go/watched")
	failsWith(err, zk.ErrNoNode, "get and watch of nothing")
}
