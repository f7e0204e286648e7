// Contenders over go-zookeeper, and their talk with the referee (see
// tests/src/contenders).
package main

import (
	"bufio"
	"errors"
	"fmt"
	"log"
	"math/rand"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

var (
	output  sync.Mutex
	stopped atomic.Bool
)

func main() {
	log.SetOutput(os.Stderr)
	contended := os.Args[1:]
	answers := make([]chan struct{}, len(contended))
	goAhead := make(chan struct{})
	var ready, done sync.WaitGroup
	ready.Add(len(contended))
	done.Add(len(contended))
	for number, word := range contended {
		answers[number] = make(chan struct{}, 1)
		recipe, path, _ := strings.Cut(word, ":")
		if recipe != "mutex" {
			log.Fatalf("no recipe %q", recipe)
		}
		c := &contender{number: number, path: path, answers: answers[number]}
		go func() {
			defer done.Done()
			c.open()
			ready.Done()
			<-goAhead
			for !stopped.Load() {
				c.turn()
				pause()
			}
			c.conn.Close()
		}()
	}
	go listen(goAhead, answers)
	ready.Wait()
	say("READY")
	done.Wait()
	say("DONE")
}

func say(format string, values ...any) {
	output.Lock()
	defer output.Unlock()
	fmt.Printf(format+"\n", values...)
}

func listen(goAhead chan struct{}, answers []chan struct{}) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch line := lines.Text(); {
		case line == "GO":
			close(goAhead)
		case line == "STOP":
			stopped.Store(true)
		default:
			number, err := strconv.Atoi(strings.TrimPrefix(line, "OK "))
			if err != nil {
				log.Fatalf("the referee said %q", line)
			}
			answers[number] <- struct{}{}
		}
	}
}

func pause() {
	time.Sleep(time.Duration(1+rand.Intn(14)) * time.Millisecond)
}

// contender is one session that wants the lock over and over.
type contender struct {
	number  int
	path    string
	answers chan struct{}
	conn    *zk.Conn
}

func (c *contender) open() {
	timeout, err := strconv.Atoi(os.Getenv("ZK_SESSION_TIMEOUT_MS"))
	if err != nil {
		log.Fatal(err)
	}
	servers := strings.Split(os.Getenv("ZK_CONNECT"), ",")
	quiet := zk.WithLogger(log.New(nowhere{}, "", 0))
	conn, events, err := zk.Connect(servers, time.Duration(timeout)*time.Millisecond, quiet)
	if err != nil {
		log.Fatal(err)
	}
	for event := range events {
		if event.State == zk.StateHasSession {
			break
		}
	}
	c.conn = conn
}

func (c *contender) turn() {
	lock := c.acquire()
	// A lock without its znode was lost before its token was known.
	if token := c.token(); token != 0 {
		c.report("HELD %d exclusive %d", c.number, token)
		pause()
		c.report("WRITE %d %d", c.number, token)
		c.report("FREE %d", c.number)
	}
	c.release(lock)
}

// token is the transaction that created the lock's znode, a number that grows
// with each grant; 0 if there is none. The library does not tell the znode's
// name, so it is the first one of this session.
func (c *contender) token() int64 {
	for {
		token, err := c.firstOwn()
		if err == nil {
			return token
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (c *contender) firstOwn() (int64, error) {
	names, _, err := c.conn.Children(c.path)
	if err != nil {
		return 0, err
	}
	sort.Slice(names, func(a, b int) bool { return sequence(names[a]) < sequence(names[b]) })
	for _, name := range names {
		found, stat, err := c.conn.Exists(c.path + "/" + name)
		if err != nil {
			return 0, err
		}
		if found && stat.EphemeralOwner == c.conn.SessionID() {
			return stat.Czxid, nil
		}
	}
	return 0, nil
}

// sequence is the number that the server has put behind a name.
func sequence(name string) string {
	return name[max(0, len(name)-10):]
}

// acquire gives up the whole session when the library gives up: it leaves its
// znode in the queue then, and only the end of the session removes it.
func (c *contender) acquire() *zk.Lock {
	for {
		lock := zk.NewLock(c.conn, c.path, zk.WorldACL(zk.PermAll))
		err := lock.Lock()
		if err == nil {
			return lock
		}
		log.Printf("contender %d begins anew: %v", c.number, err)
		c.conn.Close()
		c.open()
	}
}

func (c *contender) release(lock *zk.Lock) {
	for {
		err := lock.Unlock()
		if err == nil || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNotLocked) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (c *contender) report(format string, values ...any) {
	say(format, values...)
	<-c.answers
}

type nowhere struct{}

func (nowhere) Write(bytes []byte) (int, error) { return len(bytes), nil }
