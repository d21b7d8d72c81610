package kafka

import "fmt"

// String implements broker.Broker.
func (c *Client) String() string { return fmt.Sprintf("Kafka (%s)", c.cfg.Brokers) }

// Explain implements broker.Broker.
func (c *Client) Explain(err error) (why, advice string) {
	return explain(err), "outboxctl config view shows where kafka.brokers and the account come from"
}

// Advice implements broker.Broker.
func (c *Client) Advice() string { return "" }
