package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// sessionTimeout is long enough for an election on a busy machine, so that a
// lost server never costs a session.
const sessionTimeout = 10 * time.Second

// eventDeadline bounds the wait for something that is on its way.
const eventDeadline = 20 * time.Second

var (
	checks atomic.Int64
	input  = bufio.NewScanner(os.Stdin)
	anyone = zk.WorldACL(zk.PermAll)
)

func giveUpAfter(limit time.Duration) {
	go func() {
		time.Sleep(limit)
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		fmt.Fprintf(os.Stderr, "no end after %v\n%s\n", limit, stacks)
		os.Exit(3)
	}()
}

func step(name string, run func()) {
	fmt.Println("#", name)
	run()
}

func fail(format string, args ...any) {
	_, file, line, _ := runtime.Caller(2)
	fmt.Fprintf(os.Stderr, "FAILED at %s:%d: %s\n", file[strings.LastIndex(file, "/")+1:], line, fmt.Sprintf(format, args...))
	os.Exit(1)
}

// check counts what was found right, and ends the program at the first wrong.
func check(right bool, format string, args ...any) {
	if !right {
		fail(format, args...)
	}
	checks.Add(1)
}

func equal(found, expected any, what string) {
	if !reflect.DeepEqual(found, expected) {
		fail("%s: found %v, expected %v", what, found, expected)
	}
	checks.Add(1)
}

func ok(err error, what string) {
	if err != nil {
		fail("%s: %v", what, err)
	}
	checks.Add(1)
}

func failsWith(err, expected error, what string) {
	if !errors.Is(err, expected) {
		fail("%s: found error %v, expected %v", what, err, expected)
	}
	checks.Add(1)
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// connect opens a session and waits until a server has granted it.
func connect(servers []string, timeout time.Duration) *zk.Conn {
	conn, events, err := zk.Connect(servers, timeout, zk.WithLogger(quiet{}), zk.WithDialer(dial))
	if err != nil {
		fail("connect: %v", err)
	}
	deadline := time.After(eventDeadline)
	for {
		select {
		case event := <-events:
			if event.State == zk.StateHasSession {
				return conn
			}
		case <-deadline:
			fail("no session within %v", eventDeadline)
		}
	}
}

// next waits for a watch to fire.
func next(watch <-chan zk.Event, what string) zk.Event {
	select {
	case event := <-watch:
		if event.Err != nil {
			fail("%s: the watch ended with %v", what, event.Err)
		}
		return event
	case <-time.After(eventDeadline):
		fail("%s: the watch did not fire", what)
		panic("unreachable")
	}
}

func silent(watch <-chan zk.Event, what string) {
	select {
	case event := <-watch:
		fail("%s: fired with %v", what, event)
	default:
		checks.Add(1)
	}
}

// eventually polls for what another client or the server does in its own time.
func eventually(what string, holds func() bool) {
	deadline := time.Now().Add(eventDeadline)
	for !holds() {
		if time.Now().After(deadline) {
			fail("%s: not within %v", what, eventDeadline)
		}
		time.Sleep(50 * time.Millisecond)
	}
	checks.Add(1)
}

// carried repeats a call whose connection was lost under it, as every program
// with this library must. The calls made through it may run twice unharmed.
func carried(call func() error) error {
	deadline := time.Now().Add(eventDeadline)
	for {
		err := call()
		lost := errors.Is(err, zk.ErrConnectionClosed) || errors.Is(err, zk.ErrNoServer)
		if !lost || time.Now().After(deadline) {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// loseServer has the harness kill a server, and returns when it is dead.
func loseServer(server string) {
	exchange("LOSE SERVER "+server, "LOST "+server)
}

// bringBack has the harness start the killed servers again.
func bringBack() {
	exchange("BRING BACK", "BACK")
}

func exchange(request, expected string) {
	fmt.Println(request)
	if !input.Scan() {
		fail("the harness closed its end after %q", request)
	}
	equal(strings.TrimSpace(input.Text()), expected, "the harness's answer")
}

// ask sends a four-letter word the way `nc` does.
func ask(server, word string) string {
	conn, err := net.DialTimeout("tcp", server, 2*time.Second)
	if err != nil {
		return ""
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(2 * time.Second))
	fmt.Fprint(conn, word)
	var answer strings.Builder
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		answer.WriteString(lines.Text() + "\n")
	}
	return answer.String()
}

// leader finds the server that calls itself so.
func leader(servers []string) string {
	for _, server := range servers {
		if strings.Contains(ask(server, "srvr"), "Mode: leader\n") {
			return server
		}
	}
	return ""
}
