module github.com/outboxctl/outboxctl/catalogue

go 1.26.0

require (
	github.com/outboxctl/outboxctl/emit v0.1.0
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.5
)

require (
	github.com/google/uuid v1.6.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)
