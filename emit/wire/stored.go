package wire

import "github.com/outboxctl/outboxctl/emit/internal/jsonb"

// StoredBytes returns how many bytes data takes once PostgreSQL has stored it as
// jsonb and prints it again: that is what is published. The error says what of data
// jsonb cannot hold, and where.
func StoredBytes(data []byte) (int, error) { return jsonb.Bytes(data, "data") }
