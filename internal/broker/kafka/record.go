package kafka

import (
	"bytes"
	"cmp"
	"hash/crc32"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outboxctl/outboxctl/dispatch"
)

// keyOf is the record's key: the ordering key, or without one the aggregate's id, so that its events
// are in one partition.
func keyOf(m *dispatch.Message) []byte {
	if key := cmp.Or(m.OrderingKey, m.AggregateID); key != "" {
		return []byte(key)
	}
	return nil
}

// encode makes one batch of messages.
func (c *Client) encode(msgs []dispatch.Message, now time.Time) []byte {
	var records []byte
	for i := range msgs {
		records = appendRecord(records, i, &msgs[i])
	}
	packed, codec := records, kgo.CodecNone
	if c.compressor != nil { // the library has none for no compression
		packed, codec = c.compressor.Compress(new(bytes.Buffer), records)
	}
	batch := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: int16(codec), LastOffsetDelta: int32(len(msgs) - 1),
		FirstTimestamp: now.UnixMilli(), MaxTimestamp: now.UnixMilli(), ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: int32(len(msgs)), Records: packed,
	}
	// The length counts what follows it, the checksum what follows that.
	const behindLength, behindChecksum = 12, 21
	raw := batch.AppendTo(nil)
	batch.Length = int32(len(raw) - behindLength)
	batch.CRC = int32(crc32.Checksum(raw[behindChecksum:], crc32.MakeTable(crc32.Castagnoli)))
	return batch.AppendTo(raw[:0])
}

func appendRecord(to []byte, i int, m *dispatch.Message) []byte {
	record := kmsg.Record{OffsetDelta: int32(i), Key: keyOf(m), Value: m.Data, Headers: make([]kmsg.Header, 0, len(m.Attributes))}
	for name, value := range m.Attributes {
		record.Headers = append(record.Headers, kmsg.Header{Key: name, Value: []byte(value)})
	}
	slices.SortFunc(record.Headers, func(a, b kmsg.Header) int { return cmp.Compare(a.Key, b.Key) })
	// Length, which is 0 and one byte long here, counts the rest.
	record.Length = int32(len(record.AppendTo(nil)) - 1)
	return record.AppendTo(to)
}

// recordBytes is at least what a message takes in a batch.
func recordBytes(m *dispatch.Message) int {
	const each, header = 64, 12
	return m.Size() + len(m.AggregateID) + header*len(m.Attributes) + each
}
