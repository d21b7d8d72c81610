package broker

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Files are the files in which a broker's settings keep what is secret, and whom to trust.
type Files struct {
	// CA holds the certificates that a server may prove itself with; empty means the system's.
	CA string
	// Cert and Key are what we prove ourselves with; empty means nothing.
	Cert, Key string
	// Password is the file of a password.
	Password string
}

// TLS is the configuration of a connection. The files are read now: a wrong name is an error
// of the settings, not of the first connection.
func (f Files) TLS() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("read the certificates to trust: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s holds no certificate in PEM", f.CA)
		}
	}
	switch {
	case f.Cert == "" && f.Key == "":
	case f.Cert == "" || f.Key == "":
		return nil, errors.New("give both the certificate and its key, or neither")
	default:
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("read the client's certificate: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// ReadPassword reads the password, for each connection again: it may have been changed since.
// Without a file there is none.
func (f Files) ReadPassword() (string, error) {
	if f.Password == "" {
		return "", nil
	}
	raw, err := os.ReadFile(f.Password)
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	return strings.TrimRight(string(raw), "\r\n"), nil
}
