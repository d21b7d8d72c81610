package pubsub

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/outboxctl/outboxctl/internal/broker"
)

// resourceID is what Pub/Sub accepts as the last part of a topic's or
// subscription's name.
var resourceID = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._~+%-]{2,254}$`)

// ValidateName refuses a topic or a subscription, by the id of one in this project
// or by the full path of one in any, that Pub/Sub would refuse. The service answers
// a malformed topic name with InvalidArgument, the very code of a malformed
// message.
func ValidateName(kind, name string) error {
	id := name
	if isPath(kind, name) {
		id = lastPart(name)
	}
	switch {
	case !resourceID.MatchString(id):
		return fmt.Errorf("pub/sub name %q: want 3 to 255 letters, digits or -._~+%%, starting with a letter, or projects/PROJECT/%ss/NAME", name, kind)
	case strings.HasPrefix(strings.ToLower(id), "goog"):
		return fmt.Errorf("pub/sub name %q: the prefix goog is reserved", name)
	}
	return nil
}

// What a project's name may be: an id, which of old projects begins with a
// domain, or a number. An emulator takes anything that fits into a resource path.
var (
	projectName  = regexp.MustCompile(`^(([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]|[0-9]{1,20})$`)
	emulatorName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:~+%-]*$`)
)

// ValidateProject refuses a project that Pub/Sub would refuse: it answers every
// message of such a project with the code of a malformed message.
func ValidateProject(project string, emulated bool) error {
	switch {
	case emulated && !emulatorName.MatchString(project):
		return fmt.Errorf("pub/sub project %q: want letters, digits or -._:~+%%", project)
	case !emulated && !projectName.MatchString(project):
		return fmt.Errorf("pub/sub project %q: want its id (6 to 30 lower-case letters, digits or -, starting with a letter) or its number", project)
	}
	return nil
}

// topicPath accepts an id of this project or the full path of another one's topic.
func (c *Client) topicPath(id string) string {
	if isPath(broker.KindTopic, id) {
		return id
	}
	return "projects/" + c.cfg.Project + "/topics/" + id
}

func (c *Client) subscriptionPath(id string) string {
	if isPath(broker.KindSubscription, id) {
		return id
	}
	return "projects/" + c.cfg.Project + "/subscriptions/" + id
}

// isPath recognises projects/P/topics/T and projects/P/subscriptions/S.
func isPath(kind, name string) bool {
	parts := strings.Split(name, "/")
	return len(parts) == 4 && parts[0] == "projects" && emulatorName.MatchString(parts[1]) && parts[2] == kind+"s"
}

// lastPart turns a resource path into the id people configure.
func lastPart(path string) string {
	return path[strings.LastIndexByte(path, '/')+1:]
}
