package outbox

import (
	"maps"
	"slices"
	"strings"
)

// AllNamespaces stands for every namespace that has no entry of its own.
const AllNamespaces = "*"

// Name is a name under which events are stored, as a catalogue has it.
type Name struct {
	Namespace, Name string
	// Type is the present name; Topic is where the events go.
	Type, Topic string
}

// Names are all of a catalogue. An event is looked up by its namespace and, where that has no such
// name, under AllNamespaces: one name can be two types, on two topics.
type Names []Name

// Topics lists every topic once, in the catalogue's order.
func (n Names) Topics() (topics []string) {
	for _, e := range n {
		if !slices.Contains(topics, e.Topic) {
			topics = append(topics, e.Topic)
		}
	}
	return topics
}

// OnTopic are the types that go to a topic.
func (n Names) OnTopic(topic string) Types {
	return n.where(func(e Name) bool { return e.Topic == topic })
}

// Only is one type, by its present name, under all of its names.
func (n Names) Only(namespace, eventType string) Types {
	return n.where(func(e Name) bool { return e.Namespace == namespace && e.Type == eventType })
}

// Called are the types of a name, present or former, under all of their names. Where no type has
// the name it is meant as it stands.
func (n Names) Called(names ...string) Types {
	called := map[[2]string]bool{}
	for _, e := range n {
		if slices.Contains(names, e.Name) {
			called[[2]string{e.Namespace, e.Type}] = true
		}
	}
	here := func(e Name) bool { return called[[2]string{e.Namespace, e.Type}] }
	return n.where(here).Or(Everywhere(names...))
}

func (n Names) where(wanted func(Name) bool) Types {
	set := Types{}
	for _, e := range n {
		if wanted(e) && e.Namespace == AllNamespaces {
			set[e.Name] = namespaces{but: true}
		}
	}
	for _, e := range n {
		if in := set[e.Name]; e.Namespace != AllNamespaces && wanted(e) != in.but {
			in.list = append(in.list, e.Namespace)
			set[e.Name] = in
		}
	}
	return set
}

// Types is a set of event types as they are stored, each in some namespaces.
type Types map[string]namespaces

// namespaces are those of a list or, with but, all others.
type namespaces struct {
	but  bool
	list []string
}

func (n namespaces) has(namespace string) bool {
	return slices.Contains(n.list,
		namespace) != n.but
}

// Everywhere are types in every namespace.
func Everywhere(names ...string) Types {
	set := make(Types, len(names))
	for _, name := range names {
		set[name] = namespaces{but: true}
	}
	return set
}

// ByNamespace are types by namespace; those under AllNamespaces are meant in every one.
func ByNamespace(by map[string][]string) Types {
	set := Everywhere(by[AllNamespaces]...)
	for namespace, names := range by {
		for _, name := range names {
			if in := set[name]; !in.but {
				set[name] = namespaces{list: append(in.list, namespace)}
			}
		}
	}
	return set
}

// Has reports whether an event type of a namespace is in the set.
func (t Types) Has(namespace, name string) bool {
	in, ok := t[name]
	return ok && in.has(namespace)
}

// In are the types of the set that a namespace has.
func (t Types) In(namespace string) Types {
	out := Types{}
	for name, in := range t {
		if in.has(namespace) {
			out[name] = namespaces{list: []string{namespace}}
		}
	}
	return out
}

// Or is what is in either set.
func (t Types) Or(u Types) Types {
	if len(t) == 0 {
		return u
	}
	out := maps.Clone(t)
	for name, in := range u {
		out[name] = out[name].or(in)
	}
	return out
}

// And is what is in both sets.
func (t Types) And(u Types) Types {
	out := Types{}
	for name, in := range t {
		if both := in.not().or(u[name].not()).not(); both.but || len(both.list) > 0 {
			out[name] = both
		}
	}
	return out
}

func (n namespaces) not() namespaces { return namespaces{!n.but, n.list} }

func (n namespaces) or(m namespaces) namespaces {
	var list []string
	if !n.but {
		n, m = m, n
	}
	for _, namespace := range n.list {
		if !n.but || !m.has(namespace) {
			list = append(list, namespace)
		}
	}
	if !n.but {
		list = append(list, m.list...)
	}
	return namespaces{n.but, list}
}

// Texts writes the set as Chosen compares it with rows. The names of types have no blanks.
func (t Types) Texts() []string {
	texts := make([]string, 0, len(t))
	for name, in := range t {
		switch {
		case in.but && len(in.list) == 0:
			texts = append(texts, name)
		case in.but:
			texts = append(texts, AllNamespaces+" "+name)
		}
		for _, namespace := range in.list {
			if in.but {
				texts = append(texts, " "+name+" "+namespace)
			} else {
				texts = append(texts, namespace+" "+name)
			}
		}
	}
	slices.Sort(texts)
	return texts
}

// Chosen is the condition that an event is among those that a parameter names, each by a text:
//
//	type          events of the type
//	ns type       those in one namespace
//	* type        those in every namespace but the ones that are named in a text of the form " type ns"
//	ns and blank  events of a namespace
//	blank tenant  events of a tenant
//
// The publisher's claims write the same condition as a constant, in its dueNow.
func Chosen(param string) string {
	return strings.ReplaceAll(`(event_type::text = ANY ($texts) OR namespace || ' ' || event_type::text = ANY ($texts)
       OR namespace || ' ' = ANY ($texts) OR coalesce(' ' || tenant_id::text, '') = ANY ($texts)
       OR ('* ' || event_type::text = ANY ($texts) AND ' ' || event_type::text || ' ' || namespace <> ALL ($texts)))`, "$texts", param+"::text[]")
}
