// The go-zookeeper client against an ensemble of three: what a program written
// with github.com/go-zookeeper/zk does on a working day, and on the day a
// server dies.
//
// ZK_CONNECT lists the servers, ZK_KIND says whose they are (apache or zoolet);
// the lines that go to and come from the harness are in harness.go.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// suiteDeadline bounds the whole program: a hang is a failure, not a wait.
const suiteDeadline = 120 * time.Second

func main() {
	connect := os.Getenv("ZK_CONNECT")
	if connect == "" {
		fmt.Fprintln(os.Stderr, "ZK_CONNECT is not set")
		os.Exit(2)
	}
	servers := strings.Split(connect, ",")
	giveUpAfter(suiteDeadline)

	step("znodes", func() { znodes(servers) })
	step("containers and time to live", func() { containersAndTTL(servers) })
	step("watches", func() { watches(servers) })
	step("transactions", func() { transactions(servers) })
	step("access control", func() { accessControl(servers) })
	step("locks", func() { locks(servers) })
	step("four-letter words", func() { fourLetterWords(servers) })
	step("session expiry", func() { sessionEnd(servers) })
	step("loss of the server in use", func() { loseServerInUse(servers) })
	step("loss of the leader", func() { loseLeader(servers) })

	fmt.Printf("OK %d checks\n", checks.Load())
}
