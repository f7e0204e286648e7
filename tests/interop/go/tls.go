package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"sync"
	"time"
)

// dial opens a connection: by TLS if TLS_CA names the file of an authority. TLS_CERT and TLS_KEY are
// the files of the client's certificate and key then.
func dial(network, address string, timeout time.Duration) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: timeout}
	config := tlsConfig()
	if config == nil {
		return dialer.Dial(network, address)
	}
	return tls.DialWithDialer(dialer, network, address, config)
}

var tlsConfig = sync.OnceValue(func() *tls.Config {
	authority := os.Getenv("TLS_CA")
	if authority == "" {
		return nil
	}
	text, err := os.ReadFile(authority)
	ok(err, "read TLS_CA")
	roots := x509.NewCertPool()
	check(roots.AppendCertsFromPEM(text), "TLS_CA has no certificate")
	client, err := tls.LoadX509KeyPair(os.Getenv("TLS_CERT"), os.Getenv("TLS_KEY"))
	ok(err, "load TLS_CERT and TLS_KEY")
	return &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{client}}
})
