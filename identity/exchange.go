package identity

import (
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/pilotage-grid/pilotage/task"
)

// ExchangeMembership is the membership handshake between two pilots, spoken
// by both ends at once over a connection that is already secured and has
// shown that the other end owns remoteKey. Each sends its certificate, 4 bytes
// big-endian length and DER, and judges the other's: a member of site whose
// key is remoteKey. It returns who the other end is, or why it is refused; a
// refused connection is the caller's to close, and so closing it is how the
// other end learns of it.
//
// The caller sets a deadline on conn beforehand, which bounds both directions;
// ExchangeMembership returns only when its writing has ended too.
func ExchangeMembership(conn io.ReadWriter, own []byte, v *Verifier, site task.Site, remoteKey ed25519.PublicKey, now time.Time) (Member, error) {
	if len(own) == 0 || len(own) > MaxCertificate {
		return Member{}, fmt.Errorf("exchange memberships: the own certificate has %d bytes, 1 to %d can be sent: %w", len(own), MaxCertificate, ErrMalformed)
	}
	expected, err := PeerOf(remoteKey)
	if err != nil {
		return Member{}, fmt.Errorf("exchange memberships: %w", err)
	}
	// Both ends write first: on a transport without buffer that would block
	// both, so the write runs beside the read.
	written := make(chan error, 1)
	go func() { written <- writeCertificate(conn, own) }()
	der, readErr := readCertificate(conn)
	writeErr := <-written
	switch {
	case readErr != nil:
		return Member{}, fmt.Errorf("exchange memberships: read the other end's certificate: %w", readErr)
	case writeErr != nil:
		return Member{}, fmt.Errorf("exchange memberships: send the own certificate: %w", writeErr)
	}
	member, err := v.VerifySite(der, site, now)
	if err != nil {
		return Member{}, err
	}
	if member.Peer != expected {
		return Member{}, fmt.Errorf("peer %s showed the certificate of peer %s: %w", expected, member.Peer, ErrWrongKey)
	}
	return member, nil
}

func writeCertificate(writer io.Writer, der []byte) error {
	message := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(der)), uint32(len(der)))
	_, err := writer.Write(append(message, der...))
	return err
}

// readCertificate reads no byte beyond the message and allocates nothing
// before the length was found acceptable.
func readCertificate(reader io.Reader) ([]byte, error) {
	var header [4]byte
	if _, err := io.ReadFull(reader, header[:]); err != nil {
		return nil, fmt.Errorf("its length: %w", err)
	}
	length := binary.BigEndian.Uint32(header[:])
	if length == 0 || length > MaxCertificate {
		return nil, fmt.Errorf("it announces %d bytes, 1 to %d are read: %w", length, MaxCertificate, ErrMalformed)
	}
	der := make([]byte, length)
	if _, err := io.ReadFull(reader, der); err != nil {
		return nil, fmt.Errorf("its %d bytes: %w", length, err)
	}
	return der, nil
}
