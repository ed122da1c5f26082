# Translated from a definition file.

FROM alpine:3.21 AS sluice-stage-1
