# The image that `make image` packs without a container runtime, for those who build with one:
#   docker build --build-arg VERSION=v1 -t convoy:v1 .
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /convoy ./cmd/convoy

FROM scratch
# Without root certificates no server with a public certificate could be trusted.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /convoy /convoy
USER 65532:65532
ENTRYPOINT ["/convoy"]
