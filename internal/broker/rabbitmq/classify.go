package rabbitmq

import (
	"errors"
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/internal/broker"
)

// The codes of failures that have no number of AMQP's. They are metric labels.
const (
	codeRoutingKey = "routing_key"
	codeNack       = "nack"
	codeBlocked    = "blocked"
)

// noRoute is the code of a message that no queue takes.
const noRoute = amqp.NoRoute

var errNack = errors.New("the broker has not stored it: a queue is full, or failed")

// failure gives an error of the client library the class the dispatcher acts on.
func failure(err error) *dispatch.Failure {
	class, code := classOf(err)
	return dispatch.NewFailure(class, code, err)
}

// classOf is the one table from RabbitMQ's answers to the dispatcher's classes. What is not in it
// is retryable: waiting is safe, dead-lettering a good event is not.
func classOf(err error) (dispatch.Class, string) {
	var answer *amqp.Error
	switch {
	case errors.Is(err, amqp.ErrClosed): // it has a number, which says nothing
		return dispatch.Retryable, broker.CodeConnection
	case errors.As(err, &answer):
		return classOfCode(answer.Code), strconv.Itoa(answer.Code)
	case errors.Is(err, errNack):
		return dispatch.Retryable, codeNack
	}
	return broker.ClassOf(err)
}

func classOfCode(code int) dispatch.Class {
	switch code {
	case amqp.NotFound, noRoute, // no exchange, no queue
		amqp.AccessRefused, amqp.NotAllowed: // no rights, no such virtual host
		return dispatch.Misconfigured
	case amqp.PreconditionFailed: // larger than the broker takes
		return dispatch.Refused
	}
	return dispatch.Retryable
}

// explain describes in our words why a request was not answered, or refused.
func explain(err error) string {
	var answer *amqp.Error
	switch _, code := classOf(err); {
	case code == broker.CodeTLS:
		return "it does not prove who it is: " + err.Error()
	case code == broker.CodeConnection, code == broker.CodeTimeout:
		return "it does not answer"
	case errors.As(err, &answer) && answer.Code == amqp.AccessRefused:
		return "it does not accept the account, or the account may not do that: " + answer.Reason
	case errors.As(err, &answer):
		return answer.Reason
	}
	return err.Error()
}
