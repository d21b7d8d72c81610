# One static binary, shipped without a shell and not run by root. By default it is built from source; a release puts in the
# binaries that it has built already (--target=released).
FROM gcr.io/distroless/static-debian12:nonroot AS base
# Inside a container the loopback interface cannot be reached from outside; the platform decides who may reach the port.
ENV OUTBOXCTL_PUBLISH_HTTP_ADDR=:9464 OUTBOXCTL_CONSUME_HTTP_ADDR=:9464
EXPOSE 9464
# By number: Kubernetes cannot tell from a name that it is not root.
USER 65532:65532
ENTRYPOINT ["/outboxctl"]
CMD ["publish"]

FROM base AS released
ARG TARGETPLATFORM
COPY $TARGETPLATFORM/outboxctl /outboxctl

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY . .
ARG VERSION=dev
ARG COMMIT=unknown
ARG DATE=unknown
RUN CGO_ENABLED=0 go build -trimpath \
    -ldflags "-s -w -X github.com/outboxctl/outboxctl/cmd.version=${VERSION} -X github.com/outboxctl/outboxctl/cmd.commit=${COMMIT} -X github.com/outboxctl/outboxctl/cmd.date=${DATE}" \
    -o /outboxctl .

FROM base
COPY --from=build /outboxctl /outboxctl
