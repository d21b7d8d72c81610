package broker

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// Files are those by which a connection is encrypted.
type Files struct {
	// CA holds the certificates that a server may prove itself with; empty means the system's.
	CA string
	// Cert and Key are what we prove ourselves with; empty means nothing.
	Cert, Key string
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

// FilesOf are those of a broker's settings NAME.tls_ca, NAME.tls_cert and NAME.tls_key.
func (p Params) FilesOf(broker string) Files {
	return Files{CA: p.Setting(broker + ".tls_ca"), Cert: p.Setting(broker + ".tls_cert"), Key: p.Setting(broker + ".tls_key")}
}

// Prepare reads the files and asks for the password once, so that what is wrong with them is said
// before anything is connected. A client without a password has an empty one.
func (f Files) Prepare(password *func() (string, error)) (*tls.Config, error) {
	if *password == nil {
		*password = func() (string, error) { return "", nil }
	}
	if _, err := (*password)(); err != nil {
		return nil, err
	}
	return f.TLS()
}

// TLSSettings are the settings of FilesOf.
func TLSSettings(broker string) []Setting {
	return []Setting{
		{Name: broker + ".tls_ca", Help: "file with the certificates to trust (default the system's)", Kind: "file"},
		{Name: broker + ".tls_cert", Help: "file with a certificate of the client", Kind: "file"},
		{Name: broker + ".tls_key", Help: "file with the certificate's key", Kind: "file"},
	}
}

// AccountSettings are a user name and its password, which Params.Secret reads.
func AccountSettings(broker string) []Setting {
	return []Setting{
		{Name: broker + ".username", Help: "user name", Server: true},
		{Name: broker + ".password", Help: "password of the user", Secret: true},
		{Name: broker + ".password_file", Help: "file with the password", Kind: "file"},
	}
}

// CheckTogether finds what is wrong with the settings of TLSSettings and AccountSettings together.
func CheckTogether(broker string, setting func(string) string) map[string]error {
	problems := map[string]error{}
	if (setting(broker+".tls_cert") == "") != (setting(broker+".tls_key") == "") {
		problems[broker+".tls_cert"] = errors.New("give both the certificate and its key, or neither")
	}
	if setting(broker+".password") != "" && setting(broker+".password_file") != "" {
		problems[broker+".password"] = errors.New("give the password or the file with it, not both")
	}
	if setting(broker+".username") == "" && setting(broker+".password")+setting(broker+".password_file") != "" {
		problems[broker+".username"] = errors.New("the password needs it")
	}
	return problems
}
