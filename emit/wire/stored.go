package wire

import "github.com/outboxctl/outboxctl/emit/internal/jsonb"

// StoredBytes returns how many bytes data takes once PostgreSQL has stored it as
// jsonb and prints it again: that is what is published. The error names the part of data
// that jsonb cannot hold.
func StoredBytes(data []byte) (int, error) { return jsonb.Bytes(data, "data") }
