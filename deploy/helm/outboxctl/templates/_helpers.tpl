{{- define "outboxctl.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- /* each takes (dict "root" $ "template" name): the template for the one database or, with databases, for each of them under
its own name, with its values before the chart's. */}}
{{- define "outboxctl.each" -}}
{{- $root := .root }}
{{- $template := .template }}
{{- if not $root.Values.databases }}
{{- include $template $root }}
{{- end }}
{{- range $root.Values.databases }}
{{- $name := printf "%s-%s" $root.Release.Name .name }}
{{- if gt (len $name) 40 }}
{{- fail (printf "%s is longer than 40 characters: shorten the release's name or the database's" $name) }}
{{- end }}
{{- $values := mergeOverwrite (deepCopy $root.Values) (omit . "name") }}
{{- $_ := set $values.serviceAccount "name" (include "outboxctl.account" $root) }}
---
{{ include $template (dict "Values" $values "Chart" $root.Chart "Release" (dict "Name" $name "Namespace" $root.Release.Namespace "Service" $root.Release.Service)) }}
{{ end }}
{{- end }}

{{- define "outboxctl.labels" -}}
app.kubernetes.io/name: outboxctl
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* selector takes (dict "root" $ "component" "publisher") */}}
{{- define "outboxctl.selector" -}}
app.kubernetes.io/name: outboxctl
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "outboxctl.account" -}}
{{- .Values.serviceAccount.name | default (ternary (include "outboxctl.name" .) "default" .Values.serviceAccount.create) -}}
{{- end }}

{{- define "outboxctl.secret" -}}
{{- required "existingSecret is required: a Secret with OUTBOXCTL_DATABASE_URL" .Values.existingSecret -}}
{{- end }}

{{- define "outboxctl.files" -}}
outboxctl.yaml: |
  {{- toYaml .Values.config | nindent 2 }}
{{- with .Values.catalogue }}
catalogue.yaml: |
  {{- . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* checksum restarts pods whose files changed. */}}
{{- define "outboxctl.checksum" -}}
checksum/config: {{ include "outboxctl.files" . | sha256sum }}
{{- end }}

{{- /* pod takes (dict "root" $ "config" name-of-the-ConfigMap "account" name "restart" policy "container" (dict name args env resources probes)) */}}
{{- define "outboxctl.pod" -}}
{{- $root := .root -}}
{{- with .account }}
serviceAccountName: {{ . }}
{{- end }}
automountServiceAccountToken: false
{{- with .restart }}
restartPolicy: {{ . }}
{{- end }}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  seccompProfile: {type: RuntimeDefault}
containers:
  - name: {{ .container.name }}
    image: "{{ $root.Values.image.repository }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}"
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    args: {{- toYaml .container.args | nindent 6 }}
    envFrom:
      - secretRef: {name: {{ include "outboxctl.secret" $root }}}
    env:
      - {name: OUTBOXCTL_CONFIG, value: /etc/outboxctl/outboxctl.yaml}
      {{- if $root.Values.catalogue }}
      - {name: OUTBOXCTL_CATALOGUE, value: /etc/outboxctl/catalogue.yaml}
      {{- end }}
      {{- with .container.env }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    {{- with .container.port }}
    ports:
      - {name: http, containerPort: {{ . }}}
    # Alive is the loop, not the database: an outage must not restart everything.
    livenessProbe:
      httpGet: {path: /healthz, port: http}
      periodSeconds: 10
      failureThreshold: 6
    readinessProbe:
      httpGet: {path: /readyz, port: http}
      periodSeconds: 10
    {{- end }}
    {{- with .container.resources }}
    resources: {{- toYaml . | nindent 6 }}
    {{- end }}
    volumeMounts:
      - {name: config, mountPath: /etc/outboxctl, readOnly: true}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities: {drop: [ALL]}
volumes:
  - name: config
    configMap: {name: {{ .config }}}
{{- end }}

{{- /* deployment takes (dict "root" $ "component" c "command" words "of" values); what publisher and consumers share. */}}
{{- define "outboxctl.deployment" -}}
{{- $name := include "outboxctl.name" .root -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}-{{ .component }}
  labels:
    {{- include "outboxctl.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
spec:
  {{- if not .scaled }}
  replicas: {{ .of.replicas | default 1 }}
  {{- end }}
  selector:
    matchLabels: {{- include "outboxctl.selector" . | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "outboxctl.labels" .root | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
      annotations:
        {{- include "outboxctl.checksum" .root | nindent 8 }}
        {{- if not .root.Values.monitoring.podMonitor }}
        prometheus.io/scrape: "true"
        prometheus.io/port: "9464"
        {{- end }}
        {{- with .of.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      terminationGracePeriodSeconds: {{ .of.terminationGracePeriodSeconds | default 30 }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels: {{- include "outboxctl.selector" . | nindent 14 }}
      {{- with .of.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .of.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .of.affinity }}
      affinity: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- $addr := dict "name" (printf "OUTBOXCTL_%s_HTTP_ADDR" (index .command 0 | upper)) "value" ":9464" }}
      {{- $container := dict "name" .component "args" (concat .command (.of.args | default list)) "port" 9464
            "env" (prepend (.of.env | default list) $addr) "resources" .of.resources }}
      {{- include "outboxctl.pod" (dict "root" .root "config" $name "account" (include "outboxctl.account" .root) "container" $container) | trim | nindent 6 }}
{{- if or .scaled (gt (int (.of.replicas | default 1)) 1) }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}-{{ .component }}
  labels: {{- include "outboxctl.labels" .root | nindent 4 }}
spec:
  maxUnavailable: {{ .of.maxUnavailable | default 1 }}
  selector:
    matchLabels: {{- include "outboxctl.selector" . | nindent 6 }}
{{- end }}
{{- end }}
