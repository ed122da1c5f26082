#!/bin/sh
# runc without raw sockets: with them a step of a build could read or forge what others send over the bridge. And without the
# socket that takes traces: BuildKit keeps all that steps send there in its memory.
previous=
for word; do
  case $previous in
    --bundle) spec=$word/config.json ;;
    --process) spec=$word ;;
    *) spec= ;;
  esac
  [ -z "$spec" ] || sed -i \
    -e 's/"CAP_NET_RAW",//g; s/,"CAP_NET_RAW"//g' \
    -e 's#,{"destination":"/dev/otel-grpc.sock",[^{}]*}##' \
    -e 's#,"OTEL_TRACES_EXPORTER=otlp","OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=unix:///dev/otel-grpc.sock","OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc"##' \
    "$spec" || exit 1
  previous=$word
done
exec buildkit-runc "$@"
