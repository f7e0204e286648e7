package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// openPostgres gives a contender a pool of its own; the tables are there.
func openPostgres(recipe, name string) (lock, error) {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, fmt.Sprintf("postgres://locks@%s/locks?sslmode=disable&pool_max_conns=2", servers[0]))
	if err != nil {
		return nil, err
	}
	// The rows of the ways that need one.
	_, err = pool.Exec(ctx, `INSERT INTO resources (name, version) VALUES ($1, 0) ON CONFLICT DO NOTHING`, name)
	if err != nil {
		return nil, err
	}
	switch recipe {
	case "row":
		return &postgresRow{pool, name}, nil
	case "version":
		return &postgresVersion{pool, name}, nil
	case "for-update":
		return &postgresForUpdate{pool: pool, name: name}, nil
	default:
		return &postgresAdvisory{pool: pool, name: name}, nil
	}
}

// postgresRow is a row with a unique key and an expiry, renewed while it is held.
type postgresRow struct {
	pool *pgxpool.Pool
	name string
}

func (l *postgresRow) acquire(ctx context.Context) (*grant, error) {
	owner := rand.Text()
	var asked time.Time
	for {
		asked = time.Now()
		got, err := changedRow(l.pool.Exec(context.WithoutCancel(ctx), `INSERT INTO locks (name, owner, expires)
			VALUES ($1, $2, clock_timestamp() + $3::interval)
			ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires = excluded.expires
			WHERE locks.expires < clock_timestamp()`, l.name, owner, lease))
		if err != nil {
			return nil, err
		}
		if got {
			break
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
	lost, stop := renew(asked, func(ctx context.Context) (bool, error) {
		return changedRow(l.pool.Exec(ctx, `UPDATE locks SET expires = clock_timestamp() + $3::interval
			WHERE name = $1 AND owner = $2`, l.name, owner, lease))
	})
	return &grant{0, lost, func(ctx context.Context) (bool, error) {
		stop()
		return changedRow(l.pool.Exec(ctx, `DELETE FROM locks WHERE name = $1 AND owner = $2`, l.name, owner))
	}}, nil
}

// postgresVersion locks nothing: the write names the version that was read.
type postgresVersion struct {
	pool *pgxpool.Pool
	name string
}

func (l *postgresVersion) acquire(ctx context.Context) (*grant, error) {
	var version int64
	row := l.pool.QueryRow(ctx, `SELECT version FROM resources WHERE name = $1`, l.name)
	if err := row.Scan(&version); err != nil {
		return nil, err
	}
	return &grant{version + 1, nil, func(ctx context.Context) (bool, error) {
		return changedRow(l.pool.Exec(ctx, `UPDATE resources SET version = version + 1
			WHERE name = $1 AND version = $2`, l.name, version))
	}}, nil
}

// postgresForUpdate holds the row in a transaction.
type postgresForUpdate struct {
	pool *pgxpool.Pool
	name string
	// tx is the transaction of the holder.
	tx pgx.Tx
}

func (l *postgresForUpdate) acquire(ctx context.Context) (*grant, error) {
	const selectRow = `SELECT version FROM resources WHERE name = $1 FOR UPDATE`
	var version int64
	if l.tx != nil {
		// The holder selects once more; its transaction goes on.
		err := l.tx.QueryRow(ctx, selectRow, l.name).Scan(&version)
		return &grant{0, nil, func(context.Context) (bool, error) { return true, nil }}, err
	}
	tx, err := l.pool.Begin(ctx)
	if err != nil {
		return nil, err
	}
	if err := tx.QueryRow(ctx, selectRow, l.name).Scan(&version); err != nil {
		tx.Rollback(context.WithoutCancel(ctx))
		return nil, err
	}
	l.tx = tx
	return &grant{0, nil, func(ctx context.Context) (bool, error) {
		l.tx = nil
		err := tx.Commit(ctx)
		return err == nil, err
	}}, nil
}

// postgresAdvisory is a session-level advisory lock of one connection.
type postgresAdvisory struct {
	pool *pgxpool.Pool
	conn *pgxpool.Conn
	name string
}

func (l *postgresAdvisory) acquire(ctx context.Context) (*grant, error) {
	if l.conn == nil || l.conn.Conn().IsClosed() {
		if l.conn != nil {
			l.conn.Release()
			l.conn = nil
		}
		conn, err := l.pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		l.conn = conn
	}
	_, err := l.conn.Exec(ctx, `SELECT pg_advisory_lock(hashtextextended($1, 0))`, l.name)
	if err != nil {
		return nil, err
	}
	return &grant{0, nil, func(ctx context.Context) (bool, error) {
		var released bool
		err := l.conn.QueryRow(ctx, `SELECT pg_advisory_unlock(hashtextextended($1, 0))`, l.name).Scan(&released)
		return released, err
	}}, nil
}

func changedRow(tag pgconn.CommandTag, err error) (bool, error) {
	return tag.RowsAffected() == 1, err
}

func (l *postgresRow) close() {
	l.pool.Close()
}

func (l *postgresVersion) close() {
	l.pool.Close()
}

func (l *postgresForUpdate) close() {
	l.pool.Close()
}

func (l *postgresAdvisory) close() {
	if l.conn != nil {
		l.conn.Release()
	}
	l.pool.Close()
}
