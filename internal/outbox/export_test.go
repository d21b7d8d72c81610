package outbox

const (
	EmitBatchEvents = emitBatchEvents
	EmitBatchBytes  = emitBatchBytes
	ReadAtOnce      = readAtOnce
)
