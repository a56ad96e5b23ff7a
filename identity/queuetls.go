package identity

import (
	"crypto/tls"
	"errors"
	"time"
)

// QueueServerTLS configures the queue's server: TLS 1.3, the certificate that
// cert returns at each handshake (so that it can be renewed while serving).
// A client need not show a certificate, since people and workflow managers
// come with bearer tokens; one that is shown must be a valid membership, or
// the handshake fails. Ask MemberOfConnection who it was. Set Time in the
// result before use to judge by another clock than the system's.
func QueueServerTLS(cert func() *tls.Certificate, v *Verifier) *tls.Config {
	config := &tls.Config{
		MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequestClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			if certificate := cert(); certificate != nil {
				return certificate, nil
			}
			return nil, errors.New("the queue server has no certificate yet")
		},
		// A resumed session would be judged by the certificate of an earlier
		// connection: every connection shows its own.
		SessionTicketsDisabled: true,
	}
	config.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return nil
		}
		_, err := v.Verify(state.PeerCertificates[0].Raw, clockOf(config))
		return err
	}
	return config
}

// QueueClientTLS configures a client of the queue: TLS 1.3, the server must
// have a certificate of the VO's authority for serverName; empty means
// QueueServerName, which every queue server has, so that any address works.
// member is the pilot's certificate; nil for clients with a bearer token.
func QueueClientTLS(caPEM []byte, serverName string, member *MemberCertificate) (*tls.Config, error) {
	trusted, err := NewVerifier(caPEM)
	if err != nil {
		return nil, err
	}
	if serverName == "" {
		serverName = QueueServerName
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: trusted.roots, ServerName: serverName}
	if member != nil {
		config.Certificates = []tls.Certificate{member.keyPair()}
	}
	return config, nil
}

func clockOf(config *tls.Config) time.Time {
	if config.Time != nil {
		return config.Time()
	}
	return time.Now()
}
