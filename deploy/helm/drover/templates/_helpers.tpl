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

{{/* Options among the settings, joined by commas. */}}
{{- define "drover.options" -}}
{{- $given := get (.Values.settings | default dict) .name }}
{{- if kindIs "slice" $given }}{{ join "," $given }}{{ else }}{{ $given }}{{ end }}
{{- end }}

{{- define "drover.vaultOptions" -}}
{{- include "drover.options" (dict "Values" .Values "name" "vault-options") }}
{{- end }}

{{- define "drover.consulOptions" -}}
{{- include "drover.options" (dict "Values" .Values "name" "consul-options") }}
{{- end }}

{{/* Not empty: replicas are registered in Consul at their pods, whose addresses no setting can name. */}}
{{- define "drover.podAddress" -}}
{{- $options := printf ",%s," (include "drover.consulOptions" .) }}
{{- if and (get (.Values.settings | default dict) "consul") (not (contains ",address=" $options)) (not (contains ",register=false," $options)) }}yes{{ end }}
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
{{- fail "settings.primary needs settings.secondary-url or settings.witness: a primary that was never asked by the other site does not know that there is one, and would lead beside it" }}
{{- end }}
{{- $sited := or (eq (toString (get $settings "primary")) "true") (get $settings "primary-url") (get $settings "primary-cluster-name") }}
{{- if and $sited (not (get $settings "site")) }}
{{- fail "settings.site is required for one of two sites: a name that stays, another one at each" }}
{{- end }}
{{- if and (not $sited) (or (get $settings "site") (get $settings "witness") (get $settings "secondary-url")) }}
{{- fail "settings.site, settings.witness and settings.secondary-url are for one of two sites: say which with settings.primary, settings.primary-url or settings.primary-cluster-name" }}
{{- end }}
{{- if and .Values.masterKey.transit (not (get $settings "vault")) }}
{{- fail "masterKey.transit needs settings.vault: where the key is that unwraps the master key" }}
{{- end }}
{{- $login := printf ",%s," (include "drover.vaultOptions" .) }}
{{- if and .Values.vault.serviceAccountToken (not (or (contains ",auth=kubernetes," $login) (contains ",auth=jwt," $login))) }}
{{- fail "vault.serviceAccountToken is for a login by it: auth=kubernetes or auth=jwt in settings.vault-options" }}
{{- end }}
{{- if and .Values.vault.serviceAccountToken (contains ",jwt-file=" $login) }}
{{- fail "vault.serviceAccountToken is what jwt-file in settings.vault-options names: leave one of them out" }}
{{- end }}
{{- if and (contains ",auth=kubernetes," $login) (not (contains ",jwt-file=" $login)) (not .Values.vault.serviceAccountToken) (not .Values.customResources.enabled) }}
{{- fail "auth=kubernetes needs a token of the service account, and the pods have none: set vault.serviceAccountToken=true" }}
{{- end }}
{{- if and .Values.vault.audience (not .Values.vault.serviceAccountToken) }}
{{- fail "vault.audience is that of vault.serviceAccountToken, which is not set" }}
{{- end }}
{{- if and (eq .Values.bus.kind "inprocess") (or .Values.bus.options .Values.bus.secret) }}
{{- fail "bus.options and bus.secret are for bus.kind=rabbitmq" }}
{{- end }}
{{- end }}

{{- define "drover.scheme" -}}
{{- if include "drover.tls" . }}https{{ else }}http{{ end }}
{{- end }}
