package main

import (
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// sessionEnd cuts a client off for longer than its session lasts: the server
// ends the session, and the client learns it when it comes back.
func sessionEnd(servers []string) {
	observer := connect(servers, sessionTimeout)
	defer observer.Close()

	var cut cutter
	conn, events, err := zk.Connect(servers, 4*time.Second, zk.WithLogger(quiet{}), zk.WithDialer(cut.dial))
	ok(err, "connect through a wire that can be cut")
	defer conn.Close()
	await(events, zk.StateHasSession)
	former := conn.SessionID()
	_, err = conn.Create("/go/brief-owner", nil, zk.FlagEphemeral, anyone)
	ok(err, "create an ephemeral")
	_, _, watch, err := conn.GetW("/go")
	ok(err, "set a watch")
	_, err = observer.Sync("/go")
	ok(err, "sync")
	_, _, gone, err := observer.ExistsW("/go/brief-owner")
	ok(err, "watch the ephemeral")

	cut.set(true)
	equal(next(gone, "the end of the session").Type, zk.EventNodeDeleted, "the event")
	cut.set(false)
	await(events, zk.StateExpired)
	await(events, zk.StateHasSession)
	check(conn.SessionID() != former, "the ended session lives")
	select {
	case event := <-watch:
		failsWith(event.Err, zk.ErrSessionExpired, "the watch of the ended session")
	case <-time.After(eventDeadline):
		fail("the watch of the ended session got no event")
	}
}

// loseServerInUse kills the server a lock holder is connected to. Its session,
// its ephemerals, its lock and its watches go on at another server.
func loseServerInUse(servers []string) {
	holder := connect(servers, sessionTimeout)
	defer holder.Close()
	lost := holder.Server()
	others := without(servers, lost)
	other := connect(others, sessionTimeout)
	defer other.Close()

	session := holder.SessionID()
	ok(holder.AddAuth("digest", []byte("gopher:burrow")), "authenticate")
	lock := zk.NewLock(holder, "/go/locks/failover", anyone)
	ok(lock.Lock(), "lock")
	_, err := holder.Create("/go/alive", nil, zk.FlagEphemeral, anyone)
	ok(err, "create an ephemeral")
	for _, name := range []string{"/go/w", "/go/w/data", "/go/w/children", "/go/w/meanwhile"} {
		_, err = holder.Create(name, []byte("0"), zk.FlagPersistent, anyone)
		ok(err, "create "+name)
	}
	_, _, data, err := holder.GetW("/go/w/data")
	ok(err, "watch data")
	_, _, children, err := holder.ChildrenW("/go/w/children")
	ok(err, "watch children")
	_, _, born, err := holder.ExistsW("/go/w/unborn")
	ok(err, "watch what does not exist")
	_, _, meanwhile, err := holder.GetW("/go/w/meanwhile")
	ok(err, "watch data that changes in the gap")
	_, _, bornMeanwhile, err := holder.ExistsW("/go/w/unborn-meanwhile")
	ok(err, "watch what comes into being in the gap")

	granted := make(chan error, 1)
	waiter := zk.NewLock(other, "/go/locks/failover", anyone)
	go func() { granted <- waiter.Lock() }()
	eventually("the waiter in the queue", func() bool {
		queue, _, err := holder.Children("/go/locks/failover")
		return err == nil && len(queue) == 2
	})
	// The library's lock gives up when a connection is lost under its calls, so
	// the waiter needs the moment to set its watch.
	time.Sleep(200 * time.Millisecond)

	loseServer(lost)
	ok(carried(func() error {
		_, err := other.Set("/go/w/meanwhile", []byte("1"), -1)
		return err
	}), "write while the other client is away")
	ok(carried(func() error {
		_, err := other.Create("/go/w/unborn-meanwhile", nil, zk.FlagPersistent, anyone)
		if err == zk.ErrNodeExists {
			return nil
		}
		return err
	}), "create while the other client is away")

	ok(carried(func() error { _, err := holder.Sync("/go"); return err }), "sync through another server")
	check(holder.Server() != lost, "still at the dead server")
	equal(holder.SessionID(), session, "the session after the loss")
	equal(next(meanwhile, "the change in the gap").Type, zk.EventNodeDataChanged, "the event")
	equal(next(bornMeanwhile, "the birth in the gap").Type, zk.EventNodeCreated, "the event")
	silent(data, "a data watch without a change")
	silent(children, "a child watch without a change")
	silent(born, "an exists watch without a change")

	_, stat, err := holder.Exists("/go/alive")
	ok(err, "look for the ephemeral")
	equal(stat.EphemeralOwner, session, "the ephemeral's owner after the loss")
	ownData, _, err := holder.Get("/go/own")
	ok(err, "read with the identity given before the loss")
	equal(string(ownData), "shared", "what it reads")

	// The watches were handed to the new server.
	_, err = other.Set("/go/w/data", []byte("1"), -1)
	ok(err, "change the data")
	_, err = other.Create("/go/w/children/c", nil, zk.FlagPersistent, anyone)
	ok(err, "add a child")
	_, err = other.Create("/go/w/unborn", nil, zk.FlagPersistent, anyone)
	ok(err, "create the unborn")
	equal(next(data, "data").Type, zk.EventNodeDataChanged, "the event")
	equal(next(children, "children").Type, zk.EventNodeChildrenChanged, "the event")
	equal(next(born, "exists").Type, zk.EventNodeCreated, "the event")

	select {
	case err := <-granted:
		fail("the lock was granted while it was held: %v", err)
	default:
	}
	ok(lock.Unlock(), "unlock after the loss")
	ok(<-granted, "the lock for the waiter")
	ok(waiter.Unlock(), "unlock")
	bringBack()
}

// loseLeader kills the leader: every write of a client's that was answered is
// there afterwards, and every session goes on.
func loseLeader(servers []string) {
	conn := connect(servers, sessionTimeout)
	defer conn.Close()
	session := conn.SessionID()
	_, err := conn.Create("/go/before", nil, zk.FlagEphemeral, anyone)
	ok(err, "create an ephemeral")
	_, err = conn.Create("/go/answered", nil, zk.FlagPersistent, anyone)
	ok(err, "create the log of answers")

	answered := make(chan int)
	stop := make(chan struct{})
	go func() {
		count := 0
		for {
			select {
			case <-stop:
				answered <- count
				return
			default:
			}
			if _, err := conn.Set("/go/answered", []byte{byte(count)}, -1); err == nil {
				count++
			} else {
				time.Sleep(20 * time.Millisecond)
			}
		}
	}()
	time.Sleep(300 * time.Millisecond)
	dead := leader(servers)
	check(dead != "", "no server says it leads")
	loseServer(dead)
	others := without(servers, dead)
	eventually("a new leader", func() bool { return leader(others) != "" })
	ok(carried(func() error { _, err := conn.Sync("/go"); return err }), "sync with the new leader")
	time.Sleep(300 * time.Millisecond)
	close(stop)
	count := <-answered
	check(count > 0, "no write was answered")

	var stat *zk.Stat
	ok(carried(func() error { _, stat, err = conn.Get("/go/answered"); return err }), "read")
	check(int(stat.Version) >= count, "%d writes were answered, %d are there", count, stat.Version)
	equal(conn.SessionID(), session, "the session after the election")
	there, _, err := conn.Exists("/go/before")
	ok(err, "look for the ephemeral")
	check(there, "the ephemeral did not survive the election")
	bringBack()
}

func without(servers []string, lost string) []string {
	var others []string
	for _, server := range servers {
		if server != lost {
			others = append(others, server)
		}
	}
	return others
}

func await(events <-chan zk.Event, state zk.State) {
	deadline := time.After(eventDeadline)
	for {
		select {
		case event := <-events:
			if event.State == state {
				checks.Add(1)
				return
			}
		case <-deadline:
			fail("no %v within %v", state, eventDeadline)
		}
	}
}

// cutter is a wire that can be cut: no bytes pass, and no new connection opens.
type cutter struct {
	mutex sync.Mutex
	cut   bool
	open  []net.Conn
}

func (c *cutter) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.cut {
		return nil, net.ErrClosed
	}
	conn, err := dial(network, address, timeout)
	if err == nil {
		c.open = append(c.open, conn)
	}
	return conn, err
}

func (c *cutter) set(cut bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.cut = cut
	for _, conn := range c.open {
		conn.Close()
	}
	c.open = nil
}
