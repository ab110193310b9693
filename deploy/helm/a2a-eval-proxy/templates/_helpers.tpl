{{- define "a2a-eval-proxy.name" -}}
{{- $name := .Values.fullnameOverride | default .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- if not (regexMatch "^[a-z]([a-z0-9-]*[a-z0-9])?$" $name) -}}
{{- fail (printf "a Service cannot be named %q: use lower-case letters, digits and '-', beginning with a letter; rename the release, or set fullnameOverride" $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{- define "a2a-eval-proxy.selector" -}}
app.kubernetes.io/name: a2a-eval-proxy
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "a2a-eval-proxy.workerSelector" -}}
app.kubernetes.io/name: a2a-eval-proxy-worker
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "a2a-eval-proxy.commonLabels" -}}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "a2a-eval-proxy.labels" -}}
{{ include "a2a-eval-proxy.selector" . }}
{{ include "a2a-eval-proxy.commonLabels" . }}
{{- end -}}

{{- define "a2a-eval-proxy.workerLabels" -}}
{{ include "a2a-eval-proxy.workerSelector" . }}
{{ include "a2a-eval-proxy.commonLabels" . }}
{{- end -}}

{{/* Labels and annotations of a Pod; the argument names the template of its own labels. */}}
{{- define "a2a-eval-proxy.podMetadata" -}}
labels:
  {{- merge (dict) .root.Values.podLabels (include .labels .root | fromYaml) | toYaml | nindent 2 }}
annotations:
  checksum/settings: {{ printf "%s%s%s" (include "a2a-eval-proxy.settings" .root) .root.Values.suite (.root.Values.suites | empty | ternary "" (toJson .root.Values.suites)) | sha256sum }}
  {{- with .root.Values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Fields of every Pod except containers and volumes; the argument names the template of its selector. */}}
{{- define "a2a-eval-proxy.pod" -}}
{{- $root := .root -}}
{{- $selector := include .selector $root | fromYaml -}}
automountServiceAccountToken: {{ $root.Values.automountServiceAccountToken }}
{{- with include "a2a-eval-proxy.serviceAccount" $root }}
serviceAccountName: {{ . | quote }}
{{- end }}
{{- with $root.Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml $root.Values.podSecurityContext | nindent 2 }}
{{- range $key := list "nodeSelector" "tolerations" "affinity" }}
{{- with index $root.Values $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- if and (not $root.Values.affinity) (ne $root.Values.podAntiAffinity "none") }}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" $selector) }}
affinity:
  podAntiAffinity:
    {{- if eq $root.Values.podAntiAffinity "hard" }}
    requiredDuringSchedulingIgnoredDuringExecution:
      - {{ toYaml $term | nindent 8 | trim }}
    {{- else }}
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          {{- toYaml $term | nindent 10 }}
    {{- end }}
{{- end }}
{{- with $root.Values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  - {{ merge (dict) . (dict "labelSelector" (dict "matchLabels" $selector)) | toYaml | nindent 4 | trim }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "a2a-eval-proxy.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* The most that turns may take of the volume, in MB: four fifths. SQLite's log, and space to delete with, take the rest. */}}
{{- define "a2a-eval-proxy.mostTurnsMb" -}}
{{- $size := .Values.store.size | toString -}}
{{- $unit := regexReplaceAll "^[0-9.]+" $size "" | default "one" -}}
{{- $bytes := dict "one" 1 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "Pi" 1125899906842624 "Ei" 1152921504606846976 -}}
{{- mulf (regexFind "^[0-9.]+" $size | float64) (index $bytes $unit) 0.0000008 | floor | int -}}
{{- end -}}

{{- define "a2a-eval-proxy.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccountName | default (include "a2a-eval-proxy.name" .) -}}
{{- else -}}
{{- .Values.serviceAccountName -}}
{{- end -}}
{{- end -}}

{{/* Refuses secrets in what becomes a ConfigMap: `where` names the values, `settings` are settings of serve, in any spelling. */}}
{{- define "a2a-eval-proxy.withoutSecrets" -}}
{{- $where := .where -}}
{{- range $given, $value := .settings -}}
{{- $key := replace "-" "_" $given -}}
{{- if regexMatch "^[a-z]+://[^/]*@" ($value | toString) -}}
{{- fail (printf "%s.%s: a URL with a password does not belong in a ConfigMap; write ${VARIABLE} in a header" $where $given) -}}
{{- end -}}
{{- if regexMatch "_(token|password)$" $key -}}
{{- fail (printf "%s.%s: a secret does not belong in a ConfigMap; put A2A_EVAL_PROXY_%s into the Secret of `secret`" $where $given (upper $key)) -}}
{{- end -}}
{{- if and (has $key (list "tls_ports" "upstream_tls")) (regexMatch "key[-_]password" (toJson $value)) -}}
{{- fail (printf "%s.%s.key_password: a secret does not belong in a ConfigMap; put A2A_EVAL_PROXY_%s with key_password=... into the Secret of `secret`" $where $given (upper $key)) -}}
{{- end -}}
{{- if and (eq $key "redact_key") (not (contains "${" ($value | toString))) -}}
{{- fail (printf "%s.%s: a secret does not belong in a ConfigMap; write ${VARIABLE} of the Secret of `secret`" $where $given) -}}
{{- end -}}
{{- if has $key (list "upstream_header" "otlp_forward_headers") -}}
{{- $lines := list -}}
{{- if kindIs "map" $value -}}
{{- range $name, $text := $value }}{{ $lines = append $lines (printf "%s:%v" $name $text) }}{{ end -}}
{{- else if kindIs "slice" $value -}}
{{- range $value }}{{ $lines = append $lines (toString .) }}{{ end -}}
{{- else -}}
{{- $lines = regexSplit "[,\n]" (toString $value) -1 -}}
{{- end -}}
{{- range $lines -}}
{{- $name := regexFind "^[^:=]*" . | trim -}}
{{- if and (or (regexMatch "(?i)auth|cookie|credential|key|passw|secret|session|token" $name) (regexMatch "(?i)[:=]\\s*(bearer|basic)\\s" .)) (not (contains "${" .)) -}}
{{- fail (printf "%s.%s: the header %s has a secret, which does not belong in a ConfigMap; write ${VARIABLE} of the Secret of `secret`, or ${file:/run/secrets/a2a-eval-proxy/KEY} of `secretFiles`" $where $given $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "a2a-eval-proxy.settings" -}}
{{- include "a2a-eval-proxy.withoutSecrets" (dict "where" "settings" "settings" .Values.settings) -}}
{{- $name := include "a2a-eval-proxy.name" . -}}
{{- $hosts := concat (list $name (printf "%s.%s" $name .Release.Namespace)) (.Values.settings.allow_hosts | default list) -}}
{{- range list .Values.httpRoute .Values.grpcRoute -}}
{{- if .enabled }}{{ range .hostnames }}{{ if not (hasPrefix "*" .) }}{{ $hosts = append $hosts . }}{{ end }}{{ end }}{{ end -}}
{{- end -}}
{{- $own := dict "suite" "/etc/a2a-eval-proxy/suite.yaml" "allow_hosts" ($hosts | uniq) -}}
{{- if .Values.agents -}}
{{- if ne .Values.mode "gateway" }}{{ fail "agents: several agents need mode gateway" }}{{ end -}}
{{- if .Values.upstream }}{{ fail "agents: and upstream both name agents; leave out one" }}{{ end -}}
{{- $agents := dict -}}
{{- range $agent, $settings := .Values.agents -}}
{{- include "a2a-eval-proxy.withoutSecrets" (dict "where" (printf "agents.%s" $agent) "settings" $settings) -}}
{{- $suite := ternary (dict "suite" (printf "/etc/a2a-eval-proxy/suite-%s.yaml" $agent)) dict (hasKey $.Values.suites $agent) -}}
{{- $_ := set $agents $agent (merge (deepCopy $settings) $suite) -}}
{{- end -}}
{{- $_ := set $own "agents" $agents -}}
{{- else if eq .Values.mode "gateway" -}}
{{- $_ := set $own "upstream" (required "upstream: the gateway needs the URL of the agent, or agents" .Values.upstream) -}}
{{- else -}}
{{- $_ := set $own "upstream" (printf "http://127.0.0.1:%d" (int .Values.agent.port)) -}}
{{- end -}}
{{- if ne .Values.store.type "postgresql" -}}
{{- $most := include "a2a-eval-proxy.mostTurnsMb" . | int -}}
{{- $megabytes := .Values.settings.retain_mb | default $most | int -}}
{{- if or (gt $megabytes $most) (lt $most 1) -}}
{{- fail (printf "settings.retain_mb: %d MB of turns do not fit a volume of store.size %s; at most %d do: SQLite's log and space to delete with take the rest" $megabytes .Values.store.size $most) -}}
{{- end -}}
{{- $_ := set $own "retain_mb" $megabytes -}}
{{- end -}}
{{- toYaml (merge $own .Values.settings) -}}
{{- end -}}

{{/* The scheme of the admin port, for probes. */}}
{{- define "a2a-eval-proxy.adminScheme" -}}
{{- if include "a2a-eval-proxy.hasTls" (dict "settings" .Values.settings "port" "admin") }}, scheme: HTTPS{{ end -}}
{{- end -}}

{{/* Whether a port (listen, admin, otlp) speaks TLS: its own files or "off" in tls_ports, else those of all ports. */}}
{{- define "a2a-eval-proxy.hasTls" -}}
{{- $ports := .settings.tls_ports | default dict -}}
{{- if hasKey $ports .port -}}
{{- if not (has (toString (get $ports .port)) (list "false" "off")) }}true{{ end -}}
{{- else if .settings.tls_cert }}true{{ end -}}
{{- end -}}

{{/* The container of the proxy. */}}
{{- define "a2a-eval-proxy.container" -}}
name: a2a-eval-proxy
image: {{ include "a2a-eval-proxy.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- if eq .Values.mode "sidecar" }}
restartPolicy: Always
{{- end }}
env:
  - {name: A2A_EVAL_PROXY_CONFIG, value: /etc/a2a-eval-proxy/config.yaml}
  - {name: A2A_EVAL_PROXY_LISTEN, value: "0.0.0.0:18080"}
  - {name: A2A_EVAL_PROXY_ADMIN, value: "0.0.0.0:18081"}
  - {name: A2A_EVAL_PROXY_OTLP, value: {{ if not .Values.otlp.enabled }}"off"{{ else if eq .Values.mode "gateway" }}"0.0.0.0:4318"{{ else }}"127.0.0.1:4318"{{ end }}}
  {{- if .Values.grpc.enabled }}
  - {name: A2A_EVAL_PROXY_GRPC, value: "0.0.0.0:18082"}
  {{- end }}
  {{- if .Values.push.enabled }}
  - {name: A2A_EVAL_PROXY_PUSH_LISTEN, value: "{{ ternary "0.0.0.0" "127.0.0.1" (eq .Values.mode "gateway") }}:18083"}
  - {name: A2A_EVAL_PROXY_PUSH_URL, value: {{ .Values.push.url | default (printf "http://%s:18083" (ternary (printf "%s.%s" (include "a2a-eval-proxy.name" .) .Release.Namespace) "127.0.0.1" (eq .Values.mode "gateway"))) | quote }}}
  {{- end }}
  - {name: A2A_EVAL_PROXY_TIMEOUTS, value: "drain={{ ternary 0 .Values.shutdown.drainDelaySeconds (eq .Values.mode "sidecar") }},shutdown={{ .Values.shutdown.timeoutSeconds }}"}
  {{- if eq .Values.store.type "postgresql" }}
  - name: A2A_EVAL_PROXY_STORE
    valueFrom:
      secretKeyRef: {name: {{ .Values.store.urlFrom.secret | quote }}, key: {{ .Values.store.urlFrom.key | quote }}}
  {{- else }}
  - {name: A2A_EVAL_PROXY_STORE, value: /data/turns.db}
  {{- end }}
  {{- if .Values.workers.replicas }}
  - {name: A2A_EVAL_PROXY_EVALUATE, value: "false"}
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
envFrom:
  - secretRef: {name: {{ .Values.secret | quote }}}
ports:
  - {name: a2a, containerPort: 18080}
  - {name: a2a-admin, containerPort: 18081}
  {{- if .Values.grpc.enabled }}
  - {name: a2a-grpc, containerPort: 18082}
  {{- end }}
  {{- if and .Values.push.enabled (eq .Values.mode "gateway") }}
  - {name: a2a-push, containerPort: 18083}
  {{- end }}
  {{- if and .Values.otlp.enabled (eq .Values.mode "gateway") }}
  - {name: otlp, containerPort: 4318}
  {{- end }}
startupProbe:
  httpGet: {path: /readyz, port: a2a-admin{{ include "a2a-eval-proxy.adminScheme" . }}}
  periodSeconds: 1
  failureThreshold: 60
readinessProbe:
  httpGet: {path: /readyz, port: a2a-admin{{ include "a2a-eval-proxy.adminScheme" . }}}
  periodSeconds: 2
  failureThreshold: 1
livenessProbe:
  httpGet: {path: /healthz, port: a2a-admin{{ include "a2a-eval-proxy.adminScheme" . }}}
  periodSeconds: 10
  timeoutSeconds: 5
resources:
  {{- toYaml .Values.resources | nindent 2 }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
volumeMounts:
  - {name: a2a-eval-proxy-settings, mountPath: /etc/a2a-eval-proxy, readOnly: true}
  - {name: a2a-eval-proxy-data, mountPath: /data}
  - {name: a2a-eval-proxy-tmp, mountPath: /tmp}
  - {name: a2a-eval-proxy-files, mountPath: /run/secrets/a2a-eval-proxy, readOnly: true}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Handler of the agent's probes: through the proxy, because the agent listens on loopback. */}}
{{- define "a2a-eval-proxy.agentProbe" -}}
{{- if .Values.agent.probe -}}
{{- toYaml .Values.agent.probe -}}
{{- else if .Values.settings.tls_client_ca -}}
{{- fail "agent.probe: with settings.tls_client_ca the kubelet cannot probe the agent through the proxy; set a handler, such as {exec: {command: [...]}}" -}}
{{- else -}}
httpGet: {path: {{ .Values.agent.cardPath | quote }}, port: 18080{{ if .Values.settings.tls_cert }}, scheme: HTTPS{{ end }}}
{{- end -}}
{{- end -}}

{{/* The container of the agent. */}}
{{- define "a2a-eval-proxy.agent" -}}
{{- $shutdown := .Values.shutdown -}}
{{- $preStop := ternary 10 (add $shutdown.drainDelaySeconds $shutdown.timeoutSeconds) (eq .Values.mode "sidecar") -}}
{{- if not (kindIs "invalid" .Values.agent.preStopSeconds) }}{{ $preStop = int .Values.agent.preStopSeconds }}{{ end -}}
name: agent
image: {{ required "agent.image: a sidecar needs an agent" .Values.agent.image | quote }}
{{- with .Values.agent.command }}
command: {{ toJson . }}
{{- end }}
{{- with .Values.agent.args }}
args: {{ toJson . }}
{{- end }}
env:
  {{- if .Values.otlp.enabled }}
  - {name: OTEL_EXPORTER_OTLP_ENDPOINT, value: "{{ if include "a2a-eval-proxy.hasTls" (dict "settings" .Values.settings "port" "otlp") }}https{{ else }}http{{ end }}://127.0.0.1:4318"}
  {{- end }}
  {{- with .Values.agent.env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.agent.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
readinessProbe:
  {{- include "a2a-eval-proxy.agentProbe" . | nindent 2 }}
  periodSeconds: 5
livenessProbe:
  {{- include "a2a-eval-proxy.agentProbe" . | nindent 2 }}
  periodSeconds: 20
  failureThreshold: 6
{{- if gt (int $preStop) 0 }}
lifecycle:
  preStop:
    exec: {command: [sleep, {{ $preStop | quote }}]}
{{- end }}
resources:
  {{- toYaml .Values.agent.resources | nindent 2 }}
securityContext:
  {{- toYaml .Values.agent.securityContext | nindent 2 }}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
  {{- with .Values.agent.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Where Pods may connect to: DNS, and what the values say. */}}
{{- define "a2a-eval-proxy.egress" -}}
{{- with .Values.networkPolicy.egress -}}
egress:
  - ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
  {{- toYaml . | nindent 2 }}
{{- end -}}
{{- end -}}


{{/* A route of the Gateway API, without its rules. */}}
{{- define "a2a-eval-proxy.route" -}}
{{- if not .route.parentRefs -}}
{{- fail (printf "%s.parentRefs: name the Gateway, as in [{name: public, namespace: gateways}]" .where) -}}
{{- end }}
metadata:
  name: {{ include "a2a-eval-proxy.name" .root | quote }}
  labels:
    {{- include "a2a-eval-proxy.labels" .root | nindent 4 }}
  {{- with .route.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  parentRefs:
    {{- toYaml .route.parentRefs | nindent 4 }}
  {{- with .route.hostnames }}
  hostnames:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
