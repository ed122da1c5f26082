{{- define "sluice.name" -}}
{{- if contains "sluice" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-sluice" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sluice.serverSelector" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/component: server
{{- end }}

{{- define "sluice.workerSelector" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/component: buildkit
{{- end }}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* True for a site whose rows and content are elsewhere: it may have several replicas. */}}
{{- define "sluice.isShared" -}}
{{- if and .Values.database.existingSecret .Values.content }}true{{ end }}
{{- end }}

{{/* True if the servers replace the pod of a worker after each build. */}}
{{- define "sluice.replacesWorkers" -}}
{{- if and .Values.buildkit.enabled (eq .Values.buildkit.isolation "podPerBuild") }}true{{ end }}
{{- end }}

{{/* True if the chart makes an account for the servers. The account that all pods of a namespace share must not replace workers. */}}
{{- define "sluice.makesAccount" -}}
{{- if or .Values.serviceAccount.create (and (include "sluice.replacesWorkers" .) (not .Values.serviceAccount.name)) }}true{{ end }}
{{- end }}

{{/* The account of the servers, if they have one of their own. */}}
{{- define "sluice.serviceAccount" -}}
{{- if .Values.serviceAccount.name }}{{ .Values.serviceAccount.name }}{{ else if include "sluice.makesAccount" . }}{{ include "sluice.name" . }}{{ end }}
{{- end }}

{{/* A secret with certificates, as a volume whose files have the usual names. */}}
{{- define "sluice.certificates" -}}
{{- $keys := (index . 0).Values.buildkit.tls.keys -}}
{ secretName: {{ index . 1 }}, defaultMode: 0440, items: [{ key: {{ $keys.ca }}, path: ca.pem }, { key: {{ $keys.certificate }}, path: cert.pem }, { key: {{ $keys.key }}, path: key.pem }] }
{{- end }}

{{/* Seconds of a duration such as 2m, rounded up. */}}
{{- define "sluice.seconds" -}}
{{- $units := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 "d" 86400000 -}}
{{- div (add (mul (int64 (regexFind "^[0-9]+" .)) (get $units (regexFind "[a-z]+$" .))) 999) 1000 -}}
{{- end }}

{{/* What BuildKit keeps of its volume: four fifths, unless the values say something else. */}}
{{- define "sluice.keepBytes" -}}
{{- $cache := .Values.buildkit.cache -}}
{{- if $cache.keepBytes }}{{ $cache.keepBytes }}
{{- else if regexMatch "^[0-9]+Gi$" $cache.size }}{{ mul (int (trimSuffix "Gi" $cache.size)) 858 }}MB
{{- else }}{{ fail "buildkit.cache.size is not a number of Gi: set buildkit.cache.keepBytes to what BuildKit may keep of it, such as 800GB" }}
{{- end }}
{{- end }}

{{/* Fails with what to do about values that do not fit together. */}}
{{- define "sluice.checks" -}}
{{- if not .Values.image.repository }}{{ fail "image.repository is empty: build the image of Sluice with 'docker build .', push it to a registry, and name it" }}{{ end }}
{{- if not .Values.url }}{{ fail "url is empty: set it to the public address of Sluice, such as https://containers.example.org" }}{{ end }}
{{- if and .Values.content (not .Values.database.existingSecret) }}{{ fail "content names a bucket, but database.existingSecret is empty: set both or neither" }}{{ end }}
{{- if and .Values.database.existingSecret (not .Values.content) }}{{ fail "database.existingSecret is set, but content is empty: set both or neither" }}{{ end }}
{{- if include "sluice.isShared" . }}
{{- if not .Values.keys.existingSecret }}{{ fail "keys.existingSecret is empty: create the secret with secrets.key and registry-token.key, as docs/kubernetes.md shows" }}{{ end }}
{{- else if or (gt (int .Values.replicas) 1) .Values.autoscaling.enabled }}
{{- fail "several replicas need database.existingSecret and content: SQLite and a volume are for one" }}
{{- end }}
{{- if lt (int .Values.terminationGracePeriodSeconds) (add (int (include "sluice.seconds" .Values.stopDelay)) (int (include "sluice.seconds" .Values.drainTime)) 20) }}
{{- fail "terminationGracePeriodSeconds is too short: it must be at least stopDelay, drainTime and 20 seconds together, or Kubernetes ends the server before its transfers" }}
{{- end }}
{{- if and (include "sluice.isShared" .) (gt (int (include "sluice.seconds" .Values.drainTime)) 25) }}
{{- fail "drainTime is longer than 25s: with several replicas, requests would fail while the leader finishes its transfers" }}
{{- end }}
{{- if and .Values.service.externalTrafficPolicy (eq .Values.service.type "ClusterIP") }}
{{- fail "service.externalTrafficPolicy requires service.type NodePort or LoadBalancer" }}
{{- end }}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) }}
{{- fail "autoscaling.minReplicas is larger than autoscaling.maxReplicas" }}
{{- end }}
{{- if and .Values.buildkit.enabled (eq .Values.ipFamily "IPv6") }}
{{- fail "buildkit.enabled requires pods with IPv4 addresses: run BuildKit elsewhere, and name it in config.buildkit" }}
{{- end }}
{{- range $name := list "buildkit" "buildkitTls" "buildkitShares" }}
{{- if and $.Values.buildkit.enabled (hasKey $.Values.config $name) }}
{{- fail (printf "config.%s would be lost, because buildkit.enabled sets it: use one of them" $name) }}
{{- end }}
{{- end }}
{{- if and .Values.buildkit.enabled (eq .Values.buildkit.isolation "userNamespaces") (not (semverCompare ">=1.33.0-0" .Capabilities.KubeVersion.Version)) }}
{{- fail "buildkit.isolation=userNamespaces requires Kubernetes 1.33: older versions ignore it without a word. Use podPerBuild" }}
{{- end }}
{{- if and (include "sluice.replacesWorkers" .) (gt (int .Values.buildkit.builds) 1) }}
{{- fail "buildkit.builds is larger than 1: with buildkit.isolation=podPerBuild, a worker is for one build" }}
{{- end }}
{{- if and .Values.buildkit.enabled (not (and .Values.buildkit.tls.server .Values.buildkit.tls.client)) }}
{{- fail "buildkit.tls.server and buildkit.tls.client are required: without certificates, the steps of builds control their worker" }}
{{- end }}
{{- end }}

{{/* At most 52 characters: Kubernetes adds 11 to the name of a StatefulSet in a label of its pods, which may have 63. */}}
{{- define "sluice.workers" -}}
{{ include "sluice.name" . | trunc 43 | trimSuffix "-" }}-buildkit
{{- end }}

{{/* The configuration file: that of the values, and what follows from the rest of the chart. */}}
{{- define "sluice.config" -}}
{{- $config := deepCopy .Values.config }}
{{- $_ := set $config "url" .Values.url }}
{{- $_ := set $config "stopDelay" .Values.stopDelay }}
{{- $_ := set $config "drainTime" .Values.drainTime }}
{{- /* The names of the service. Probes and Prometheus use the addresses of pods, which are the server's own. */}}
{{- $service := include "sluice.name" . }}
{{- $inside := printf "%s.%s" $service .Release.Namespace }}
{{- $names := list $service $inside (printf "%s.svc" $inside) (printf "%s.svc.cluster.local" $inside) }}
{{- $_ := set $config "hosts" (concat $names (.Values.config.hosts | default list)) }}
{{- if and .Values.ingress.enabled (not (hasKey $config "trustedProxies")) }}{{ $_ := set $config "trustedProxies" 1 }}{{ end }}
{{- if include "sluice.isShared" . }}{{ $_ := set $config "content" .Values.content }}{{ end }}
{{- if .Values.buildkit.enabled }}
{{- $name := include "sluice.workers" . }}
{{- $tls := dict "ca" "/etc/sluice/buildkit/ca.pem" "certificate" "/etc/sluice/buildkit/cert.pem" "key" "/etc/sluice/buildkit/key.pem" "serverName" $name }}
{{- $address := printf "dns+tcp://%s.%s.svc:1234" $name $.Release.Namespace }}
{{- $_ := set $config "buildkit" (list $address) }}
{{- $_ := set $config "buildkitTls" (dict $address $tls) }}
{{- with ternary 1 .Values.buildkit.builds (eq (include "sluice.replacesWorkers" .) "true") }}{{ $_ := set $config "buildkitShares" (dict $address (dict "builds" (int .))) }}{{ end }}
{{- else if not (hasKey $config "buildkit") }}
{{- $_ := set $config "buildkit" (list "off") }}
{{- end }}
{{- toYaml $config }}
{{- end }}
