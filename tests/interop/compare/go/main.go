// Lock programs over the clients that users of each store take, and their talk
// with the referee (see tests/src/compare).
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var (
	servers = strings.Split(os.Getenv("COMPARE_SERVERS"), ",")
	lease   = milliseconds("COMPARE_LEASE_MS")
	// poll is the mean pause between two tries of the ways that cannot wait in the store.
	poll = milliseconds("COMPARE_POLL_MS")
)

// lock is one lock as one contender sees it.
type lock interface {
	// acquire waits until the lock is held. The ways that poll look at ctx between
	// two tries alone: a try that is cut short may leave a lock that no contender
	// holds.
	acquire(ctx context.Context) (*grant, error)
	// close gives back what the lock has of its store.
	close()
}

// grant is what a holder has.
type grant struct {
	// token rises with each grant; 0 where the store has no such number.
	token int64
	// lost is closed when the client notices that the lock may be lost; nil
	// where it never does.
	lost <-chan struct{}
	// release returns whether the lock was held until then.
	release func(ctx context.Context) (bool, error)
}

// open connects a contender; the connection is its own.
func open(recipe, name string) (lock, error) {
	switch recipe {
	case "etcd":
		return openEtcd(name)
	case "redis":
		return openRedis(name, false)
	case "redis-renewed":
		return openRedis(name, true)
	case "redlock":
		return openRedlock(name)
	case "mariadb-row", "mariadb-version", "mariadb-for-update", "mariadb-get-lock":
		return openMariaDB(strings.TrimPrefix(recipe, "mariadb-"), name)
	case "postgres-row", "postgres-version", "postgres-for-update", "postgres-advisory":
		return openPostgres(strings.TrimPrefix(recipe, "postgres-"), name)
	}
	return nil, fmt.Errorf("no recipe %q", recipe)
}

// polls has the recipes that cannot wait in their store.
var polls = []string{"redis", "redis-renewed", "redlock", "mariadb-row", "postgres-row"}

// contender takes turns at one lock.
type contender struct {
	number int
	polls  bool
	// optimistic ways lock nothing: a write that is refused is tried again, and is no
	// error.
	optimistic bool
	lock       lock
	words      chan string
}

func main() {
	log.SetOutput(os.Stderr)
	contenders := make([]*contender, len(os.Args)-1)
	var opened sync.WaitGroup
	for number, argument := range os.Args[1:] {
		opened.Go(func() {
			recipe, name, _ := strings.Cut(argument, ":")
			lock, err := open(recipe, name)
			if err != nil {
				log.Fatalf("%s: %v", argument, err)
			}
			contenders[number] = &contender{
				number:     number,
				polls:      slices.Contains(polls, recipe),
				optimistic: strings.HasSuffix(recipe, "-version"),
				lock:       lock,
				words:      make(chan string, 4),
			}
		})
	}
	opened.Wait()
	for _, c := range contenders {
		go c.takeTurns()
	}
	say("READY")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "ASK", "OK", "AGAIN":
			number, err := strconv.Atoi(words[1])
			if err != nil {
				log.Fatal(err)
			}
			contenders[number].words <- words[0]
		case "RUN":
			run(contenders, words[1:])
		case "STOP":
			closeAll(contenders)
			say("DONE")
			return
		default:
			log.Fatalf("the referee said %q", lines.Text())
		}
	}
}

// closeAll gives back what all contenders have, for at most a lease: some may
// still wait for a lock.
func closeAll(contenders []*contender) {
	var closing sync.WaitGroup
	for _, c := range contenders {
		closing.Go(c.lock.close)
	}
	closed := make(chan struct{})
	go func() {
		closing.Wait()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(lease):
	}
}

func (c *contender) takeTurns() {
	for word := range c.words {
		if word != "ASK" {
			log.Fatalf("contender %d was sent %q without a turn", c.number, word)
		}
		c.turn()
	}
}

func (c *contender) turn() {
	held, err := c.lock.acquire(context.Background())
	if err != nil {
		say("FAILED %d %s", c.number, oneLine(err))
		return
	}
	over := make(chan struct{})
	if held.lost != nil {
		go func() {
			select {
			case <-held.lost:
				say("LOST %d", c.number)
			case <-over:
			}
		}()
	}
	say("HELD %d %d", c.number, held.token)
	for <-c.words == "AGAIN" {
		say("AGAIN %d %s", c.number, c.again())
	}
	// It writes without looking whether it still holds the lock.
	say("WRITE %d %d", c.number, held.token)
	<-c.words
	close(over)
	ctx, cancel := context.WithTimeout(context.Background(), 2*lease)
	defer cancel()
	kept, err := held.release(ctx)
	if err != nil {
		say("FREED %d failed %s", c.number, oneLine(err))
		return
	}
	say("FREED %d %t", c.number, kept)
}

// again has the holder acquire its lock once more, in the same way.
func (c *contender) again() string {
	ctx, cancel := context.WithTimeout(context.Background(), lease/2)
	defer cancel()
	held, err := c.lock.acquire(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return "waits"
		}
		return "refused"
	}
	if _, err := held.release(context.Background()); err != nil {
		return "refused"
	}
	return "granted"
}

// times is what contenders of one lock measure together.
type times struct {
	sync.Mutex
	grants     atomic.Int64
	released   time.Time
	cycles     []int64
	handOvers  []int64
	handOverOn bool
}

// run has all contenders acquire and release for a time, and prints how long
// each cycle took. With a hold time, one that has released asks again when
// another has the lock, and the time from one to the next is measured too.
func run(contenders []*contender, words []string) {
	long, hold := number(words[0]), number(words[1])
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	shared := &times{handOverOn: hold > 0}
	failures.Store(0)
	var running sync.WaitGroup
	for _, c := range contenders {
		running.Go(func() { c.loop(ctx, shared, hold) })
	}
	running.Wait()
	say("ERRORS %d", failures.Load())
	say("CYCLES%s", list(shared.cycles))
	say("HANDOVERS%s", list(shared.handOvers))
}

func (c *contender) loop(ctx context.Context, shared *times, hold time.Duration) {
	end, _ := ctx.Deadline()
	// A wait in the store is not cut short: it ends when the others release.
	wait := ctx
	if !c.polls {
		wait = context.WithoutCancel(ctx)
	}
	for ctx.Err() == nil {
		asked := time.Now()
		held, err := c.lock.acquire(wait)
		if err != nil {
			if ctx.Err() == nil {
				failed(err)
				pause(ctx)
			}
			continue
		}
		acquired := time.Now()
		own := shared.grants.Add(1)
		shared.Lock()
		if shared.handOverOn && !shared.released.IsZero() && acquired.Before(end) {
			shared.handOvers = append(shared.handOvers, acquired.Sub(shared.released).Microseconds())
		}
		shared.Unlock()
		if acquired.Before(end) {
			time.Sleep(hold)
		}
		released := time.Now()
		shared.Lock()
		shared.released = released
		shared.Unlock()
		if !c.release(held) {
			continue
		}
		// What ends after the window is not part of its throughput.
		if done := time.Now(); done.Before(end) {
			cycle := acquired.Sub(asked) + done.Sub(released)
			shared.Lock()
			shared.cycles = append(shared.cycles, cycle.Microseconds())
			shared.Unlock()
		}
		for hold > 0 && shared.grants.Load() == own && ctx.Err() == nil {
			time.Sleep(time.Millisecond / 2)
		}
	}
}

// release returns whether a lock was held and is released.
func (c *contender) release(held *grant) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*lease)
	defer cancel()
	kept, err := held.release(ctx)
	if err != nil {
		// What it has not released goes with its lease.
		failed(err)
	} else if !kept && !c.optimistic {
		failed(errNotHeld)
	}
	return err == nil && kept
}

var errNotHeld = errors.New("the release found the lock lost")

// failures counts the errors of the store in a run, after which a program tries
// again.
var failures atomic.Int64

func failed(err error) {
	failures.Add(1)
	log.Print(err)
}

var output sync.Mutex

func say(format string, values ...any) {
	output.Lock()
	defer output.Unlock()
	fmt.Printf(format+"\n", values...)
}

func list(values []int64) string {
	slices.Sort(values)
	var text strings.Builder
	for _, value := range values {
		fmt.Fprintf(&text, " %d", value)
	}
	return text.String()
}

func oneLine(err error) string {
	return strings.ReplaceAll(err.Error(), "\n", " ")
}

func milliseconds(variable string) time.Duration {
	return number(os.Getenv(variable))
}

// number reads milliseconds.
func number(text string) time.Duration {
	value, err := strconv.Atoi(text)
	if err != nil {
		log.Fatal(err)
	}
	return time.Duration(value) * time.Millisecond
}

// pause waits before the next try, for half to one and a half of poll, so that
// contenders do not keep step.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(poll/2 + rand.N(poll)):
		return nil
	}
}

// renew calls extend in every third of the lease until the lock is released;
// the returned channel is closed when the lock may be lost: when it is, and
// when there was no reply for nine tenths of a lease, counted from before the
// request. The rest is for work that is under way then, and for clocks that do
// not go at the same rate.
func renew(asked time.Time, extend func(ctx context.Context) (bool, error)) (lost <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan struct{})
	go func() {
		const held = 9
		until := asked.Add(lease * held / 10)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(lease / 3):
			}
			began, kept := extendBefore(ctx, until, extend)
			if ctx.Err() != nil {
				return
			}
			if !kept {
				close(gone)
				return
			}
			until = began.Add(lease * held / 10)
		}
	}()
	return gone, cancel
}

// extendBefore calls extend until it succeeds, finds the lock lost, or the time
// is over: an error, or a reply that does not come, says nothing about the lock.
func extendBefore(ctx context.Context, until time.Time, extend func(ctx context.Context) (bool, error)) (began time.Time, kept bool) {
	type reply struct {
		began time.Time
		kept  bool
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	replies := make(chan reply, 1)
	go func() {
		for ctx.Err() == nil {
			began := time.Now()
			try, cancel := context.WithTimeout(ctx, lease/4)
			kept, err := extend(try)
			cancel()
			if err == nil {
				replies <- reply{began, kept}
				return
			}
			pause(ctx)
		}
	}()
	select {
	case it := <-replies:
		return it.began, it.kept
	case <-ctx.Done():
		return time.Time{}, false
	}
}
