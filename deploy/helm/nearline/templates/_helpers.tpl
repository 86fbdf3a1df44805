{{- define "nearline.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end }}
{{- end }}

{{- define "nearline.labels" -}}
app.kubernetes.io/name: nearline
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "nearline.selector" -}}
app.kubernetes.io/name: nearline
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "nearline.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end }}

{{/* The address of the Service, which pods use. */}}
{{- define "nearline.serviceUrl" -}}
http://{{ include "nearline.name" . }}.{{ .Release.Namespace }}.svc{{ if ne (int .Values.service.port) 80 }}:{{ .Values.service.port }}{{ end }}
{{- end }}

{{/* The address under which people reach Nearline: the one that is named, else that of the Ingress, else of the Service. */}}
{{- define "nearline.publicUrl" -}}
{{- if .Values.publicUrl }}{{ .Values.publicUrl -}}
{{- else if .Values.ingress.enabled }}{{ ternary "https" "http" (ne .Values.ingress.tlsSecret "") }}://{{ .Values.ingress.host -}}
{{- else }}{{ include "nearline.serviceUrl" . }}{{ end }}
{{- end }}

{{/*
The keys of this installation, as JSON: those that its Secret holds, else new ones, which stay the same within one
rendering. They are never rendered anew, as nothing could be read any more.
*/}}
{{- define "nearline.keys" -}}
{{- if not (hasKey .Values "keys") }}
{{- $known := (lookup "v1" "Secret" .Release.Namespace (printf "%s-keys" (include "nearline.name" .))).data | default dict }}
{{- $signing := index $known "NEARLINE_SECRET_KEY" | default (randAlphaNum 50 | b64enc) }}
{{- $encryption := index $known "NEARLINE_SECRETS_KEY" | default (randBytes 32 | replace "+" "-" | replace "/" "_" | b64enc) }}
{{- $_ := set .Values "keys" (dict "NEARLINE_SECRET_KEY" $signing "NEARLINE_SECRETS_KEY" $encryption) }}
{{- end }}
{{- toJson .Values.keys }}
{{- end }}

{{/* What the processes are told: addresses and their passwords. */}}
{{- define "nearline.connections" -}}
DATABASE_URL: {{ required "Give database.url, or existingSecret, or trial.enabled=true." .Values.database.url | b64enc }}
BROKER_URL: {{ required "Give broker.url, or existingSecret, or trial.enabled=true." .Values.broker.url | b64enc }}
NEARLINE_STORE_URL: {{ required "Give store.url, or existingSecret, or trial.enabled=true." .Values.store.url | b64enc }}
NEARLINE_STORE_ACCESS_KEY: {{ .Values.store.accessKey | b64enc | quote }}
NEARLINE_STORE_SECRET_KEY: {{ .Values.store.secretKey | b64enc | quote }}
{{- end }}

{{/* What the pods of all processes share. */}}
{{- define "nearline.pod" -}}
{{- $root := .root -}}
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets: {{ range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile: {type: RuntimeDefault}
{{- with $root.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* What their containers share. `secrets` is the name before the Secrets: the setup has copies of its own. */}}
{{- define "nearline.container" -}}
{{- $root := .root -}}
image: {{ include "nearline.image" $root }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
envFrom:
  - secretRef: {name: {{ $root.Values.existingKeysSecret | default (printf "%s-keys" .secrets) }}}
{{- if not $root.Values.trial.enabled }}
  - secretRef: {name: {{ $root.Values.existingSecret | default (printf "%s-connections" .secrets) }}}
{{- end }}
env:
  - {name: NEARLINE_PUBLIC_URL, value: {{ include "nearline.publicUrl" $root | quote }}}
  - name: NEARLINE_ALLOWED_HOSTS
    value: {{ include "nearline.hosts" $root | quote }}
  - {name: NEARLINE_TRUSTED_PROXIES, value: {{ join "," $root.Values.trustedProxies | quote }}}
  {{- if and $root.Values.ingress.enabled $root.Values.ingress.jobsHost }}
  - {name: NEARLINE_JOBS_URL, value: "{{ ternary "https" "http" (ne $root.Values.ingress.tlsSecret "") }}://{{ $root.Values.ingress.jobsHost }}"}
  {{- end }}
  - {name: NEARLINE_IN_POD, value: "1"}
  - {name: SAMPLE, value: "0"}
{{- if $root.Values.caConfigMap }}{{/* what httpx and urllib3 read, and what botocore does */}}
  - {name: SSL_CERT_FILE, value: /etc/nearline/ca/ca.crt}
  - {name: AWS_CA_BUNDLE, value: /etc/nearline/ca/ca.crt}
{{- end }}
{{- if $root.Values.cluster.attach }}
{{- $own := dict "agent_image" (include "nearline.image" $root) "platform_url" (include "nearline.serviceUrl" $root) "pull_policy" $root.Values.image.pullPolicy "image_pull_secrets" (join "," $root.Values.image.pullSecrets) }}
  - {name: NEARLINE_THIS_CLUSTER, value: {{ merge (dict) $root.Values.cluster.settings $own | toJson | quote }}}
{{- end }}
{{- range $name, $value := $root.Values.settings }}
  - {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
volumeMounts:
  - {name: home, mountPath: /var/lib/nearline}
  - {name: tmp, mountPath: /tmp}
{{- if $root.Values.caConfigMap }}
  - {name: ca, mountPath: /etc/nearline/ca, readOnly: true}
{{- end }}
{{- end }}

{{/* The volumes of their pods beside `home`. */}}
{{- define "nearline.volumes" -}}
- {name: tmp, emptyDir: {}}
{{- with .Values.caConfigMap }}
- {name: ca, configMap: {name: {{ . }}, items: [{key: ca.crt, path: ca.crt}]}}
{{- end }}
{{- end }}

{{/* The names that the web process answers to. */}}
{{- define "nearline.hosts" -}}
{{- $name := include "nearline.name" . -}}
{{- $hosts := list "localhost" "127.0.0.1" $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) -}}
{{- if .Values.publicUrl }}{{ $hosts = append $hosts (urlParse .Values.publicUrl).hostname }}{{ end -}}
{{- if .Values.ingress.host }}{{ $hosts = append $hosts .Values.ingress.host }}{{ end -}}
{{- join "," (concat $hosts .Values.allowedHosts | uniq) -}}
{{- end }}

{{- define "nearline.probes" -}}
readinessProbe:
  httpGet: {path: /readyz, port: http, httpHeaders: [{name: Host, value: localhost}]}
  periodSeconds: 5
  timeoutSeconds: 5
livenessProbe:
  httpGet: {path: /healthz, port: http, httpHeaders: [{name: Host, value: localhost}]}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
startupProbe:
  httpGet: {path: /healthz, port: http, httpHeaders: [{name: Host, value: localhost}]}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 90
{{- end }}
