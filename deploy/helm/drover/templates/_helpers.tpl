{{- define "drover.name" -}}
{{- if contains "drover" .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-drover" (.Release.Name | trunc 45 | trimSuffix "-") }}{{ end }}
{{- end }}

{{- define "drover.selector" -}}
app.kubernetes.io/name: drover
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "drover.labels" -}}
{{ include "drover.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "drover.account" -}}
{{- if .Values.serviceAccount.name }}{{ .Values.serviceAccount.name }}{{ else if .Values.serviceAccount.create }}{{ include "drover.name" . }}{{ else }}default{{ end }}
{{- end }}

{{/* The Secret of the API's certificate; empty: it speaks http. */}}
{{- define "drover.tls" -}}
{{- if .Values.tls.secret }}{{ .Values.tls.secret }}{{ else if .Values.tls.certManager.enabled }}{{ include "drover.name" . }}-tls{{ end }}
{{- end }}

{{/* What cannot work is said when it is rendered, not by pods that do not start. */}}
{{- define "drover.check" -}}
{{- if and (not (include "drover.tls" .)) (not .Values.tls.plaintext) }}
{{- fail "the API needs a certificate: set tls.secret or tls.certManager.enabled, or tls.plaintext=true where something in front of the pods ends TLS" }}
{{- end }}
{{- if and (include "drover.tls" .) .Values.tls.plaintext }}
{{- fail "tls.plaintext is for an API without a certificate: unset it, or tls.secret and tls.certManager.enabled" }}
{{- end }}
{{- if and .Values.tls.clientCASecret (not (include "drover.tls" .)) }}
{{- fail "tls.clientCASecret needs a certificate of the API's own: clients show theirs over TLS alone" }}
{{- end }}
{{- if and .Values.tls.certManager.enabled (not .Values.tls.certManager.issuer) }}
{{- fail "tls.certManager.issuer is required: the name of an Issuer or ClusterIssuer" }}
{{- end }}
{{- if and (not .Values.image.tag) (not .Values.image.digest) }}
{{- fail "image.tag is required: the version of Drover (or image.digest)" }}
{{- end }}
{{- $settings := .Values.settings | default dict }}
{{- if and (eq (toString (get $settings "primary")) "true") (not (get $settings "secondary-url")) (not (get $settings "witness")) }}
{{- fail "settings.primary needs settings.secondary-url or settings.witness: a pod that is made anew has forgotten that there is another site, and would lead beside it" }}
{{- end }}
{{- if and (eq .Values.bus.kind "inprocess") (or .Values.bus.options .Values.bus.secret) }}
{{- fail "bus.options and bus.secret are for bus.kind=rabbitmq" }}
{{- end }}
{{- end }}

{{- define "drover.scheme" -}}
{{- if include "drover.tls" . }}https{{ else }}http{{ end }}
{{- end }}
