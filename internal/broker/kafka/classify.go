package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/outboxctl/outboxctl/dispatch"
	"github.com/outboxctl/outboxctl/internal/broker"
)

// failure gives an error of the client library the class the dispatcher acts on.
func failure(err error) *dispatch.Failure {
	class, code := classOf(err)
	return dispatch.NewFailure(class, code, err)
}

// classOf is the one table from Kafka's answers to the dispatcher's classes. What is not in it is
// retryable: waiting is safe, dead-lettering a good event is not.
func classOf(err error) (dispatch.Class, string) {
	var answer *kerr.Error
	if errors.As(err, &answer) {
		return classOfAnswer(answer), answer.Message
	}
	return broker.ClassOf(err)
}

func classOfAnswer(answer *kerr.Error) dispatch.Class {
	switch answer {
	case kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.UnsupportedForMessageFormat:
		return dispatch.Refused
	case kerr.UnknownTopicOrPartition, kerr.UnknownTopicID, kerr.InvalidTopicException, // missing
		kerr.TopicAuthorizationFailed, kerr.ClusterAuthorizationFailed, kerr.SaslAuthenticationFailed, // rights
		kerr.UnsupportedSaslMechanism, kerr.IllegalSaslState, kerr.SecurityDisabled,
		kerr.PolicyViolation, // full
		kerr.InvalidRequiredAcks, kerr.UnsupportedVersion, kerr.UnsupportedCompressionType:
		return dispatch.Misconfigured
	}
	return dispatch.Retryable // NOT_LEADER…, NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR, …
}

// explain describes in our words why a request was not answered, or refused.
func explain(err error) string {
	var answer *kerr.Error
	switch _, code := classOf(err); {
	case code == broker.CodeTLS:
		return "it does not prove who it is: " + err.Error()
	case !errors.As(err, &answer):
		return "it does not answer"
	case errors.Is(err, kerr.SaslAuthenticationFailed):
		return "it does not accept the account's credentials"
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
		return "the account may not do that"
	}
	return answer.Description
}
