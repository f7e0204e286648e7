package main

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	driver "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

var (
	deleteOwn = redis.NewScript(
		`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`)
	extendOwn = redis.NewScript(
		`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) end return 0`)
)

// redisLock is SET NX PX, and a delete that compares the value first.
type redisLock struct {
	client *redis.Client
	name   string
	renew  bool
}

func openRedis(name string, renew bool) (lock, error) {
	client := redis.NewClient(&redis.Options{Addr: servers[0]})
	return &redisLock{client, name, renew}, client.Ping(context.Background()).Err()
}

func (l *redisLock) acquire(ctx context.Context) (*grant, error) {
	value := rand.Text()
	var asked time.Time
	for {
		asked = time.Now()
		set, err := l.client.SetNX(context.WithoutCancel(ctx), l.name, value, lease).Result()
		if err != nil {
			return nil, err
		}
		if set {
			break
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
	release := func(ctx context.Context) (bool, error) {
		deleted, err := deleteOwn.Run(ctx, l.client, []string{l.name}, value).Int()
		return deleted == 1, err
	}
	if !l.renew {
		return &grant{0, nil, release}, nil
	}
	lost, stop := renew(asked, func(ctx context.Context) (bool, error) {
		extended, err := extendOwn.Run(ctx, l.client, []string{l.name}, value, lease.Milliseconds()).Int()
		return extended == 1, err
	})
	return &grant{0, lost, func(ctx context.Context) (bool, error) {
		stop()
		return release(ctx)
	}}, nil
}

func (l *redisLock) close() {
	l.client.Close()
}

// redlock is redsync over all servers, extended while it is held.
type redlock struct {
	sync    *redsync.Redsync
	clients []*redis.Client
	name    string
}

func openRedlock(name string) (lock, error) {
	l := &redlock{name: name}
	var pools []driver.Pool
	for _, server := range servers {
		client := redis.NewClient(&redis.Options{Addr: server})
		l.clients = append(l.clients, client)
		pools = append(pools, goredis.NewPool(client))
	}
	l.sync = redsync.New(pools...)
	return l, nil
}

// acquire tries by itself: LockContext would cut a try short.
func (l *redlock) acquire(ctx context.Context) (*grant, error) {
	mutex := l.sync.NewMutex(l.name, redsync.WithExpiry(lease))
	for {
		err := mutex.TryLockContext(context.WithoutCancel(ctx))
		if err == nil {
			break
		}
		if !isTaken(err) {
			return nil, err
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
	lost, stop := renew(mutex.Until().Add(-lease), func(ctx context.Context) (bool, error) {
		kept, err := mutex.ExtendContext(ctx)
		if isTaken(err) {
			// A majority has no such lock any more.
			return false, nil
		}
		return kept, err
	})
	return &grant{0, lost, func(ctx context.Context) (bool, error) {
		stop()
		valid := time.Now().Before(mutex.Until())
		kept, err := mutex.UnlockContext(ctx)
		if isTaken(err) || errors.Is(err, redsync.ErrLockAlreadyExpired) {
			err = nil
		}
		return kept && valid, err
	}}, nil
}

// isTaken returns whether another one has the lock, on a majority or because
// several tried at once and none got one.
func isTaken(err error) bool {
	var taken *redsync.ErrTaken
	var node *redsync.ErrNodeTaken
	return errors.Is(err, redsync.ErrFailed) || errors.As(err, &taken) || errors.As(err, &node)
}

func (l *redlock) close() {
	for _, client := range l.clients {
		client.Close()
	}
}
