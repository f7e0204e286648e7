package main

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	contenders     = 5
	roundsPerOwner = 8
)

// locks has several sessions count on one znode, read then write without a
// version: only mutual exclusion keeps the count right.
func locks(servers []string) {
	setup := connect(servers, sessionTimeout)
	defer setup.Close()
	_, err := setup.Create("/go/count", []byte{0}, zk.FlagPersistent, anyone)
	ok(err, "create the counter")

	var inside, overlaps atomic.Int32
	var group sync.WaitGroup
	for range [contenders]struct{}{} {
		conn := connect(servers, sessionTimeout)
		defer conn.Close()
		group.Add(1)
		go func() {
			defer group.Done()
			lock := zk.NewLock(conn, "/go/locks/count", anyone)
			for round := 0; round < roundsPerOwner; round++ {
				ok(lock.Lock(), "lock")
				if inside.Add(1) != 1 {
					overlaps.Add(1)
				}
				countOne(conn)
				inside.Add(-1)
				ok(lock.Unlock(), "unlock")
			}
		}()
	}
	group.Wait()

	equal(overlaps.Load(), int32(0), "holders at the same time")
	_, err = setup.Sync("/go/count")
	ok(err, "sync")
	data, stat, err := setup.Get("/go/count")
	ok(err, "read the counter")
	equal(int(data[0]), contenders*roundsPerOwner, "the count under the lock")
	equal(stat.Version, int32(contenders*roundsPerOwner), "the counter's version")

	lockProperties(servers, setup)
}

func countOne(conn *zk.Conn) {
	// The former holder may have written through another server.
	_, err := conn.Sync("/go/count")
	ok(err, "sync under the lock")
	data, stat, err := conn.Get("/go/count")
	ok(err, "read under the lock")
	_, err = conn.Set("/go/count", []byte{data[0] + 1}, stat.Version)
	ok(err, "write under the lock")
}

func lockProperties(servers []string, conn *zk.Conn) {
	lock := zk.NewLock(conn, "/go/locks/one", anyone)
	ok(lock.LockWithData([]byte("holder")), "lock with data")
	failsWith(lock.Lock(), zk.ErrDeadlock, "lock twice")
	children, _, err := conn.Children("/go/locks/one")
	ok(err, "list the queue")
	equal(len(children), 1, "the length of the queue")
	data, stat, err := conn.Get("/go/locks/one/" + children[0])
	ok(err, "read the holder")
	equal(string(data), "holder", "the holder's data")
	equal(stat.EphemeralOwner, conn.SessionID(), "the holder's session")

	// A holder that goes away gives the lock to the next in line.
	dying := connect(servers, sessionTimeout)
	next := zk.NewLock(dying, "/go/locks/one", anyone)
	got := make(chan error, 1)
	go func() { got <- next.Lock() }()
	eventually("the second in the queue", func() bool {
		children, _, err := conn.Children("/go/locks/one")
		return err == nil && len(children) == 2
	})
	select {
	case err := <-got:
		fail("a held lock was granted: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	ok(lock.Unlock(), "unlock")
	failsWith(lock.Unlock(), zk.ErrNotLocked, "unlock twice")
	ok(<-got, "the lock for the next in line")
	waiting := make(chan error, 1)
	go func() { waiting <- lock.Lock() }()
	dying.Close()
	ok(<-waiting, "the lock after its holder's session ended")
	ok(lock.Unlock(), "unlock it again")
}
