# Built from source, shipped without a shell: one static binary, not run by root.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY . .
ARG VERSION=dev
ARG COMMIT=unknown
ARG DATE=unknown
RUN CGO_ENABLED=0 go build -trimpath \
    -ldflags "-s -w -X github.com/outboxctl/outboxctl/cmd.version=${VERSION} -X github.com/outboxctl/outboxctl/cmd.commit=${COMMIT} -X github.com/outboxctl/outboxctl/cmd.date=${DATE}" \
    -o /outboxctl .

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /outboxctl /outboxctl
# Inside a container the loopback interface cannot be reached from outside; the platform decides who may reach the port.
ENV OUTBOXCTL_PUBLISH_HTTP_ADDR=:9464 OUTBOXCTL_CONSUME_HTTP_ADDR=:9464
EXPOSE 9464
# By number: Kubernetes cannot tell from a name that it is not root.
USER 65532:65532
ENTRYPOINT ["/outboxctl"]
CMD ["publish"]
