package main

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// etcdLock is concurrency.Mutex under a session, which is a lease that the
// client keeps alive.
type etcdLock struct {
	client  *clientv3.Client
	session *concurrency.Session
	name    string
}

func openEtcd(name string) (lock, error) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            servers,
		DialTimeout:          10 * time.Second,
		DialKeepAliveTime:    lease / 3,
		DialKeepAliveTimeout: lease / 3,
		Logger:               zap.NewNop(),
	})
	if err != nil {
		return nil, err
	}
	l := &etcdLock{client: client, name: "/" + name}
	return l, l.begin()
}

func (l *etcdLock) begin() (err error) {
	l.session, err = concurrency.NewSession(l.client, concurrency.WithTTL(int(lease/time.Second)))
	return err
}

func (l *etcdLock) acquire(ctx context.Context) (*grant, error) {
	select {
	case <-l.session.Done():
		if err := l.begin(); err != nil {
			return nil, err
		}
	default:
	}
	session := l.session
	mutex := concurrency.NewMutex(session, l.name)
	if err := mutex.Lock(ctx); err != nil {
		return nil, err
	}
	release := func(ctx context.Context) (bool, error) {
		err := unlock(ctx, mutex)
		if err != nil {
			// The key goes with the lease.
			session.Close()
			return false, err
		}
		select {
		case <-session.Done():
			return false, nil
		default:
			return true, nil
		}
	}
	// The store's revision at the grant.
	return &grant{mutex.Header().Revision, session.Done(), release}, nil
}

// unlock tries until it succeeds: the server that it asks may be gone.
func unlock(ctx context.Context, mutex *concurrency.Mutex) error {
	for {
		try, cancel := context.WithTimeout(ctx, lease/3)
		err := mutex.Unlock(try)
		cancel()
		if err == nil {
			return nil
		}
		if pause(ctx) != nil {
			return err
		}
	}
}

func (l *etcdLock) close() {
	l.session.Close()
	l.client.Close()
}
