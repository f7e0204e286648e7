package main

import (
	"context"
	"crypto/rand"
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
		set, err := l.client.SetNX(ctx, l.name, value, lease).Result()
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

// redlock is redsync over all servers, extended while it is held.
type redlock struct {
	sync *redsync.Redsync
	name string
}

func openRedlock(name string) (lock, error) {
	var pools []driver.Pool
	for _, server := range servers {
		pools = append(pools, goredis.NewPool(redis.NewClient(&redis.Options{Addr: server})))
	}
	return &redlock{redsync.New(pools...), name}, nil
}

func (l *redlock) acquire(ctx context.Context) (*grant, error) {
	var mutex *redsync.Mutex
	for {
		mutex = l.sync.NewMutex(l.name, redsync.WithExpiry(lease),
			redsync.WithRetryDelay(poll))
		err := mutex.LockContext(ctx)
		if err == nil {
			break
		}
		// It gives up after 32 tries.
		if ctx.Err() != nil {
			return nil, err
		}
	}
	lost, stop := renew(mutex.Until().Add(-lease), mutex.ExtendContext)
	return &grant{0, lost, func(ctx context.Context) (bool, error) {
		stop()
		// It returns an error when it was lost.
		valid := time.Now().Before(mutex.Until())
		kept, _ := mutex.UnlockContext(ctx)
		return kept && valid, nil
	}}, nil
}
