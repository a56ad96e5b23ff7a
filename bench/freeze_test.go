package bench

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// What is said to a stopped pilot, and what it says, arrives when it goes on;
// one that is closed waits for nothing.
func TestHeldLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		held := &line{}
		conn := &heldConn{Conn: here, line: held, closed: make(chan struct{})}
		var heard []byte
		go func() {
			heard, _ = io.ReadAll(there)
		}()
		held.freeze()
		held.freeze()
		var written time.Time
		go func() {
			if _, err := conn.Write([]byte("late")); err != nil {
				t.Error(err)
			}
			written = time.Now()
		}()
		began := time.Now()
		<-time.After(time.Minute)
		held.thaw()
		synctest.Wait()
		if written.Sub(began) != time.Minute {
			t.Errorf("written after %s", written.Sub(began))
		}
		held.freeze()
		ended := make(chan error)
		go func() {
			_, err := conn.Write([]byte("never"))
			ended <- err
		}()
		synctest.Wait()
		_ = conn.Close()
		if err := <-ended; err == nil {
			t.Error("a closed connection takes bytes")
		}
		synctest.Wait()
		if string(heard) != "late" {
			t.Errorf("heard %q", heard)
		}
	})
}

// The other end sees at once that a pilot was killed, and what is left of that
// reaches nobody any more.
func TestCutLine(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ended := make(chan error, 1)
	go func() {
		there, err := listener.Accept()
		if err == nil {
			_, err = io.ReadAll(there)
			_ = there.Close()
		}
		ended <- err
	}()
	var cut line
	conn, err := cut.dial(t.Context(), listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	cut.cut()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := conn.Write([]byte("late")); err == nil {
		t.Error("the line takes bytes")
	}
	if _, err := cut.dial(t.Context(), listener.Addr().String()); !errors.Is(err, errCut) {
		t.Errorf("dialled again: %v", err)
	}
}
