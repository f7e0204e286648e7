package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
)

// openMariaDB gives a contender a pool of its own; the tables are there.
func openMariaDB(recipe, name string) (lock, error) {
	db, err := sql.Open("mysql", fmt.Sprintf("locks:locks@tcp(%s)/locks?interpolateParams=true", servers[0]))
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	// The rows of the ways that need one.
	if _, err := db.ExecContext(ctx, `INSERT IGNORE INTO resources (name, version) VALUES (?, 0)`, name); err != nil {
		return nil, err
	}
	switch recipe {
	case "row":
		return &mariadbRow{db, name}, nil
	case "version":
		return &mariadbVersion{db, name}, nil
	case "for-update":
		return &mariadbForUpdate{db: db, name: name}, nil
	default:
		return &mariadbGetLock{db: db, name: name}, nil
	}
}

// takeRow inserts the row, or takes it over when it has expired; the owner is
// assigned first.
const takeRow = `INSERT INTO locks (name, owner, expires)
	VALUES (?, ?, UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND)
	ON DUPLICATE KEY UPDATE
		owner = IF(expires < UTC_TIMESTAMP(6), VALUES(owner), owner),
		expires = IF(owner = VALUES(owner), VALUES(expires), expires)`

// mariadbRow is a row with a unique key and an expiry, renewed while it is held.
type mariadbRow struct {
	db   *sql.DB
	name string
}

func (l *mariadbRow) acquire(ctx context.Context) (*grant, error) {
	owner := rand.Text()
	var asked time.Time
	for {
		asked = time.Now()
		got, err := changed(l.db.ExecContext(context.WithoutCancel(ctx), takeRow, l.name, owner, lease.Microseconds()))
		if got {
			break
		}
		if isMySQL(err, 1205, 1213) { // It has waited for long, or a deadlock was broken.
			failed(err)
		} else if err != nil {
			return nil, err
		}
		if err := pause(ctx); err != nil {
			return nil, err
		}
	}
	lost, stop := renew(asked, func(ctx context.Context) (bool, error) {
		return changed(l.db.ExecContext(ctx, `UPDATE locks SET expires = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND
			WHERE name = ? AND owner = ?`, lease.Microseconds(), l.name, owner))
	})
	return &grant{0, lost, func(ctx context.Context) (bool, error) {
		stop()
		return changed(l.db.ExecContext(ctx, `DELETE FROM locks WHERE name = ? AND owner = ?`, l.name, owner))
	}}, nil
}

// mariadbVersion locks nothing: the write names the version that was read.
type mariadbVersion struct {
	db   *sql.DB
	name string
}

func (l *mariadbVersion) acquire(ctx context.Context) (*grant, error) {
	var version int64
	row := l.db.QueryRowContext(ctx, `SELECT version FROM resources WHERE name = ?`, l.name)
	if err := row.Scan(&version); err != nil {
		return nil, err
	}
	return &grant{version + 1, nil, func(ctx context.Context) (bool, error) {
		return changed(l.db.ExecContext(ctx, `UPDATE resources SET version = version + 1
			WHERE name = ? AND version = ?`, l.name, version))
	}}, nil
}

// mariadbForUpdate holds the row in a transaction.
type mariadbForUpdate struct {
	db   *sql.DB
	name string
	// tx is the transaction of the holder.
	tx *sql.Tx
}

func (l *mariadbForUpdate) acquire(ctx context.Context) (*grant, error) {
	const selectRow = `SELECT version FROM resources WHERE name = ? FOR UPDATE`
	var version int64
	if l.tx != nil {
		// The holder selects once more; its transaction goes on.
		err := l.tx.QueryRowContext(ctx, selectRow, l.name).Scan(&version)
		return &grant{0, nil, func(context.Context) (bool, error) { return true, nil }}, err
	}
	for {
		// The transaction outlives the limit of the acquisition.
		tx, err := l.db.BeginTx(context.WithoutCancel(ctx), nil)
		if err != nil {
			return nil, err
		}
		err = tx.QueryRowContext(ctx, selectRow, l.name).Scan(&version)
		if err == nil {
			l.tx = tx
			return &grant{0, nil, func(context.Context) (bool, error) {
				l.tx = nil
				err := tx.Commit()
				return err == nil, err
			}}, nil
		}
		tx.Rollback()
		if !isMySQL(err, 1205, 1213) { // It has waited for long, or a deadlock was broken.
			return nil, err
		}
		failed(err)
	}
}

// mariadbGetLock is GET_LOCK of one connection.
type mariadbGetLock struct {
	db   *sql.DB
	conn *sql.Conn
	name string
}

func (l *mariadbGetLock) acquire(ctx context.Context) (*grant, error) {
	if l.conn == nil {
		// The connection outlives the limit of the acquisition.
		conn, err := l.db.Conn(context.WithoutCancel(ctx))
		if err != nil {
			return nil, err
		}
		l.conn = conn
	}
	for {
		got, err := l.ask(ctx, `SELECT GET_LOCK(?, 50)`)
		if err != nil {
			return nil, err
		}
		if got {
			break
		}
	}
	return &grant{0, nil, func(ctx context.Context) (bool, error) {
		return l.ask(ctx, `SELECT RELEASE_LOCK(?)`)
	}}, nil
}

// ask sends a question about the lock; after an error the next one has another
// connection.
func (l *mariadbGetLock) ask(ctx context.Context, question string) (bool, error) {
	var answer sql.NullInt64
	err := l.conn.QueryRowContext(ctx, question, l.name).Scan(&answer)
	if err != nil {
		l.conn.Close()
		l.conn = nil
	}
	return answer.Int64 == 1, err
}

func changed(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	rows, err := result.RowsAffected()
	// An update of a row that was there counts as two.
	return rows > 0, err
}

func isMySQL(err error, numbers ...uint16) bool {
	var known *mysql.MySQLError
	if !errors.As(err, &known) {
		return false
	}
	for _, number := range numbers {
		if known.Number == number {
			return true
		}
	}
	return false
}

func (l *mariadbRow) close() {
	l.db.Close()
}

func (l *mariadbVersion) close() {
	l.db.Close()
}

func (l *mariadbForUpdate) close() {
	l.db.Close()
}

func (l *mariadbGetLock) close() {
	l.db.Close()
}
