package nats_test

import (
	"os"

	"github.com/nats-io/nats.go"

	"github.com/outboxctl/outboxctl/dispatch"
	natspublisher "github.com/outboxctl/outboxctl/dispatch/nats"
)

func ExampleNew() {
	publisher := func() (dispatch.Publisher, error) {
		conn, err := nats.Connect(os.Getenv("NATS_URL"), nats.ReconnectBufSize(-1), nats.MaxReconnects(-1))
		if err != nil {
			return nil, err
		}
		return natspublisher.New(conn, map[string]string{"orders": "shop.orders"})
	}
	_ = publisher // for dispatch.Config
}
