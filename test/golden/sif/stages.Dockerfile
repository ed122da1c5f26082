# Translated from a definition file.

FROM scratch AS sluice-post-1
COPY <<'END' /post
  export PATH="/go/bin:$PATH"
  cat <<EOF >hello.go
package main
import "fmt"
func main() { fmt.Printf("Hello\n") }
EOF
  go build -o hello hello.go

END

FROM golang:1.26 AS sluice-stage-1
USER 0
RUN --mount=type=bind,from=sluice-post-1,target=/dev/sluice ["/bin/sh","-c","mkdir -p /.singularity.d/env && cd / && export APPTAINER_ENVIRONMENT=/.singularity.d/env/91-environment.sh SINGULARITY_ENVIRONMENT=/.singularity.d/env/91-environment.sh && exec \"$@\"","sh","/bin/sh","-ex","/dev/sluice/post"]

FROM alpine:3.21 AS sluice-stage-2

FROM gcr.io/distroless/static@sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff AS sluice-stage-3
COPY --from=sluice-stage-1 ["/root/hello","/bin/hello"]
COPY --from=sluice-stage-2 ["/etc/ssl","/etc/ssl"]
COPY ["notes.txt","/opt/notes.txt"]
