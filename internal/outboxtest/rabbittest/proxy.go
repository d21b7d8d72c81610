package rabbittest

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/internal/outboxtest/gatetest"
)

// Proxy stands between a client and the node. It understands so much of AMQP that it can refuse
// single messages as the node would, and it can be away.
type Proxy struct {
	// Gate answers with the code with which a message's channel is closed.
	*gatetest.Gate[uint16]

	node, addr string

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]struct{}
}

// NewProxy starts one before the node.
func NewProxy(t testing.TB, n *Node) *Proxy {
	t.Helper()
	answers := map[dispatch.Class]uint16{dispatch.Retryable: 541, dispatch.Refused: 406, dispatch.Misconfigured: 403}
	p := &Proxy{Gate: gatetest.New(answers), node: n.Addr(), addr: "127.0.0.1:0", conns: map[net.Conn]struct{}{}}
	p.listen(t)
	t.Cleanup(p.Away)
	return p
}

// Addr is where clients reach it.
func (p *Proxy) Addr() string { return p.addr }

func (p *Proxy) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *Proxy) listen(t testing.TB) {
	t.Helper()
	l, err := net.Listen("tcp", p.addr)
	require.NoError(t, err)
	p.set(func() { p.listener, p.addr = l, l.Addr().String() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			node, err := net.Dial("tcp", p.node)
			if err != nil {
				_ = client.Close()
				continue
			}
			p.set(func() { p.conns[client], p.conns[node] = struct{}{}, struct{}{} })
			s := &session{proxy: p, client: client, node: node, channels: map[uint16]*state{}}
			go s.fromClient()
			go s.fromNode()
		}
	}()
}

// Away cuts all connections and takes no more.
func (p *Proxy) Away() {
	p.set(func() {
		_ = p.listener.Close()
		for c := range p.conns {
			_ = c.Close()
		}
		clear(p.conns)
	})
}

// Back takes connections again.
func (p *Proxy) Back(t testing.TB) { p.listen(t) }

// session is one connection through the proxy.
type session struct {
	proxy        *Proxy
	client, node net.Conn

	mu       sync.Mutex // of what follows, and of writes to client and node
	channels map[uint16]*state
}

// state of a channel.
type state struct {
	// publish is the method frame of a message whose properties have not come yet.
	publish []byte
	// sent and confirmed count messages. refusing is the frame that closes the channel once all that
	// was sent is confirmed: the node would confirm it, too, and the suite counts what is stored.
	sent, confirmed uint64
	refusing        []byte
	// closed: the client was told, and what it sends is dropped until it has heard it.
	closed bool
}

const (
	frameMethod, frameHeader = 1, 2
	classChannel, classBasic = 20, 60
	channelClose             = 40
	channelCloseOk           = 41
	basicPublish             = 40
	basicAck, basicNack      = 80, 120
)

// readFrame returns a frame with its end mark.
func readFrame(r io.Reader) ([]byte, error) {
	head := make([]byte, 7)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	frame := make([]byte, 7+int(binary.BigEndian.Uint32(head[3:]))+1)
	copy(frame, head)
	_, err := io.ReadFull(r, frame[7:])
	return frame, err
}

func method(frame []byte, class, id uint16) bool {
	return frame[0] == frameMethod && len(frame) > 11 &&
		binary.BigEndian.Uint16(frame[7:]) == class && binary.BigEndian.Uint16(frame[9:]) == id
}

func methodFrame(channel, class, id uint16, args []byte) []byte {
	frame := []byte{frameMethod}
	frame = binary.BigEndian.AppendUint16(frame, channel)
	frame = binary.BigEndian.AppendUint32(frame, uint32(4+len(args)))
	frame = binary.BigEndian.AppendUint16(frame, class)
	frame = binary.BigEndian.AppendUint16(frame, id)
	return append(append(frame, args...), 0xCE)
}

// closing is the frame by which the node closes a channel.
func closing(channel, code uint16) []byte {
	text := "refused by the test"
	args := binary.BigEndian.AppendUint16(nil, code)
	args = append(append(args, byte(len(text))), text...)
	return methodFrame(channel, classChannel, channelClose, append(args, 0, 60, 0, 40))
}

func (s *session) end() {
	_ = s.client.Close()
	_ = s.node.Close()
}

func (s *session) fromClient() {
	defer s.end()
	hello := make([]byte, 8)
	if _, err := io.ReadFull(s.client, hello); err != nil {
		return
	}
	if _, err := s.node.Write(hello); err != nil {
		return
	}
	for {
		frame, err := readFrame(s.client)
		if err != nil || s.forward(frame) != nil {
			return
		}
	}
}

// of returns the state of a channel. The lock is held.
func (s *session) of(channel uint16) *state {
	if s.channels[channel] == nil {
		s.channels[channel] = &state{}
	}
	return s.channels[channel]
}

func (s *session) forward(frame []byte) error {
	channel := binary.BigEndian.Uint16(frame[1:])
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := s.of(channel)
	switch {
	case (ch.closed || ch.refusing != nil) && method(frame, classChannel, channelCloseOk):
		// The node closes its channel now, and its answer is not the client's.
		_, err := s.node.Write(methodFrame(channel, classChannel, channelClose,
			[]byte{0, 200, 0, 0, 0, 0, 0}))
		return err
	case ch.closed || ch.refusing != nil:
		return nil
	case method(frame, classBasic, basicPublish):
		ch.publish = frame
		return nil
	case frame[0] == frameHeader && ch.publish != nil:
		id := messageID(frame)
		s.mu.Unlock()
		code, held := s.proxy.Judge(id)
		if held != nil {
			held()
		}
		s.mu.Lock()
		if code != 0 {
			ch.refusing = closing(channel, code)
			return s.refuse(ch)
		}
		ch.sent++
		_, err := s.node.Write(append(ch.publish, frame...))
		ch.publish = nil
		return err
	}
	_, err := s.node.Write(frame)
	return err
}

// refuse closes a channel at the client once nothing of it is unconfirmed. The lock is held.
func (s *session) refuse(ch *state) error {
	if ch.refusing == nil || ch.confirmed < ch.sent {
		return nil
	}
	_, err := s.client.Write(ch.refusing)
	ch.refusing, ch.closed = nil, true
	return err
}

func (s *session) fromNode() {
	defer s.end()
	for {
		frame, err := readFrame(s.node)
		if err != nil || s.answer(frame) != nil {
			return
		}
	}
}

func (s *session) answer(frame []byte) error {
	channel := binary.BigEndian.Uint16(frame[1:])
	s.mu.Lock()
	defer s.mu.Unlock()
	ch := s.of(channel)
	if ch.closed {
		if method(frame, classChannel, channelCloseOk) {
			delete(s.channels, channel)
		}
		return nil
	}
	if method(frame, classBasic, basicAck) || method(frame, classBasic, basicNack) {
		if tag := binary.BigEndian.Uint64(frame[11:]); frame[19]&1 != 0 { // and all before it
			ch.confirmed = tag
		} else {
			ch.confirmed++
		}
	}
	if _, err := s.client.Write(frame); err != nil {
		return err
	}
	if method(frame, classChannel, channelCloseOk) {
		delete(s.channels, channel)
		return nil
	}
	return s.refuse(ch)
}

// messageID finds the property in a header frame: those before it are content type (15), headers
// (13), delivery mode (12); it is bit 7.
func messageID(frame []byte) string {
	r := bytes.NewReader(frame[7+12:])
	var flags uint16
	_ = binary.Read(r, binary.BigEndian, &flags)
	short := func() string {
		n, _ := r.ReadByte()
		b := make([]byte, n)
		_, _ = io.ReadFull(r, b)
		return string(b)
	}
	if flags&(1<<15) != 0 {
		short()
	}
	if flags&(1<<14) != 0 {
		short()
	}
	if flags&(1<<13) != 0 {
		var n uint32
		_ = binary.Read(r, binary.BigEndian, &n)
		_, _ = r.Seek(int64(n), io.SeekCurrent)
	}
	for _, bit := range []uint{12, 11} { // delivery mode, priority
		if flags&(1<<bit) != 0 {
			_, _ = r.ReadByte()
		}
	}
	for _, bit := range []uint{10, 9, 8} { // correlation id, reply to, expiration
		if flags&(1<<bit) != 0 {
			short()
		}
	}
	if flags&(1<<7) == 0 {
		return ""
	}
	return short()
}
